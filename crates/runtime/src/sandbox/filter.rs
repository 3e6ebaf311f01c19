//! The system calls that nothing inside a sandbox makes: doors in the kernel that no honest build or test needs.
//!
//! Three filters are laid over one another, because each has one answer: calls that are refused, calls that this
//! kernel claims not to know (so that libraries fall back to older ones that can be judged), and sockets of a family
//! that is not served.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

/// Which sockets can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Sockets {
    /// None.
    None,
    /// IPv4 and IPv6.
    Internet,
    /// Those of this machine: only for programs that are shown a socket to ask at.
    Local,
    /// All of these.
    LocalAndInternet,
}

impl Sockets {
    /// The families that can be used.
    fn families(self) -> &'static [i32] {
        match self {
            Sockets::None => &[],
            Sockets::Internet => &[libc::AF_INET, libc::AF_INET6],
            Sockets::Local => &[libc::AF_UNIX],
            Sockets::LocalAndInternet => &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6],
        }
    }
}

/// Puts all filters in force for this process and what it becomes. There is no way back.
pub(super) fn apply(sockets: Sockets) -> Result<(), String> {
    let failed = |what: String| format!("the system call filter cannot be put in force: {what}");
    let filters = programs(sockets).map_err(|error| failed(error.to_string()))?;
    for filter in filters {
        seccompiler::apply_filter(&filter).map_err(|error| failed(error.to_string()))?;
    }
    Ok(())
}

/// Refused whatever their arguments.
const REFUSED: &[i64] = &[
    // Other processes' memory and descriptors.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Keys of the session.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // What the file system looks like.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    libc::SYS_setns,
    // The kernel itself.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
];

/// Only this processor has them.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] = &[libc::SYS_kexec_file_load, libc::SYS_iopl, libc::SYS_ioperm];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[];

/// Answered as by a kernel that does not have them. Of `clone3` the flags cannot be seen, so everybody is sent back to
/// `clone`; the rings of io_uring go round every filter.
const UNKNOWN: &[i64] = &[
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// Flags of `clone` and `unshare` that make namespaces: inside, nobody gets rights that way.
const NAMESPACES: [u64; 8] = [
    libc::CLONE_NEWNS as u64,
    libc::CLONE_NEWCGROUP as u64,
    libc::CLONE_NEWUTS as u64,
    libc::CLONE_NEWIPC as u64,
    libc::CLONE_NEWUSER as u64,
    libc::CLONE_NEWPID as u64,
    libc::CLONE_NEWNET as u64,
    0x80, // CLONE_NEWTIME
];

/// Requests that type into a terminal.
const TYPING: [u64; 2] = [libc::TIOCSTI, libc::TIOCLINUX];

fn programs(sockets: Sockets) -> Result<Vec<BpfProgram>, seccompiler::BackendError> {
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    let word = |argument, operator, value| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
    };
    let mut refused: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.iter().chain(REFUSED_HERE).map(|call| (*call, Vec::new())).collect();
    for call in [libc::SYS_clone, libc::SYS_unshare] {
        // NEWTIME is a signal's number in the flags of clone.
        let flags = NAMESPACES.iter().filter(|flag| call != libc::SYS_clone || **flag != 0x80);
        let rules: Result<Vec<SeccompRule>, _> =
            flags.map(|flag| SeccompRule::new(vec![word(0, MaskedEq(*flag), *flag)?])).collect();
        refused.insert(call, rules?);
    }
    let typing: Result<Vec<SeccompRule>, _> =
        TYPING.iter().map(|request| SeccompRule::new(vec![word(1, Eq, *request)?])).collect();
    refused.insert(libc::SYS_ioctl, typing?);

    let unknown = UNKNOWN.iter().map(|call| (*call, Vec::new())).collect();

    let mut unserved: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let others: Result<Vec<SeccompCondition>, _> =
        sockets.families().iter().map(|family| word(0, Ne, *family as u64)).collect();
    let socket = match sockets {
        Sockets::None => Vec::new(),
        Sockets::Internet | Sockets::Local | Sockets::LocalAndInternet => {
            vec![SeccompRule::new(others?)?]
        }
    };
    unserved.insert(libc::SYS_socket, socket);
    // A pair of connected sockets leads nowhere else, but one for datagrams can be pointed at any address; raw ones are
    // another name for the same.
    let pair = vec![
        SeccompRule::new(vec![word(0, Ne, libc::AF_UNIX as u64)?])?,
        SeccompRule::new(vec![word(1, MaskedEq(0xf), libc::SOCK_DGRAM as u64)?])?,
        SeccompRule::new(vec![word(1, MaskedEq(0xf), libc::SOCK_RAW as u64)?])?,
    ];
    unserved.insert(libc::SYS_socketpair, pair);

    let answers = [(refused, libc::EPERM), (unknown, libc::ENOSYS), (unserved, libc::EAFNOSUPPORT)];
    let mut programs = Vec::new();
    for (rules, answer) in answers {
        let answer = SeccompAction::Errno(answer as u32);
        let arch: TargetArch = std::env::consts::ARCH.try_into()?;
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, answer, arch)?;
        programs.push(filter.try_into()?);
    }
    programs.extend(other_numbers());
    Ok(programs)
}

/// On x86-64 every call has a second number (the x32 form), which the filters above do not see.
fn other_numbers() -> Option<BpfProgram> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let line = |code: u16, jt: u8, k: u32| sock_filter { code, jt, jf: 0, k };
    let refused = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    Some(vec![
        // Load the number; below 2^30 it is the usual form.
        line((libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, 0, 0),
        line((libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16, 1, 0x4000_0000),
        line((libc::BPF_RET | libc::BPF_K) as u16, 0, libc::SECCOMP_RET_ALLOW),
        line((libc::BPF_RET | libc::BPF_K) as u16, 0, refused),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_can_be_made_for_this_processor() {
        for sockets in [Sockets::None, Sockets::Internet, Sockets::Local, Sockets::LocalAndInternet]
        {
            assert_eq!(
                programs(sockets).unwrap().len(),
                3 + usize::from(other_numbers().is_some())
            );
        }
    }
}
