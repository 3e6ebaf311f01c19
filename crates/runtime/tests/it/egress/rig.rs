//! A proxy with servers behind it, and what became of each wish.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use machine::policy::hosts::{Allowed, Decision, Manner, Passage};
use runtime::egress::{Limits, Options, Proxy};

/// Longer than anything here takes.
pub(super) const LONG: Duration = Duration::from_secs(20);

/// A proxy; names below `.example` lead to this machine.
pub(super) struct Rig {
    folder: tempfile::TempDir,
    pub(super) proxy: Option<Proxy>,
    pub(super) log: Arc<Mutex<Vec<Passage>>>,
    pub(super) resolved: Arc<AtomicUsize>,
}

impl Rig {
    pub(super) fn new(allowed: &[String]) -> Rig {
        Rig::with(allowed, Limits::default(), Manner::of)
    }

    pub(super) fn with(allowed: &[String], limits: Limits, manner: fn(u16) -> Manner) -> Rig {
        let folder = tempfile::tempdir().unwrap();
        let (log, resolved) = (Arc::default(), Arc::new(AtomicUsize::new(0)));
        let (own_log, count): (Arc<Mutex<Vec<Passage>>>, _) =
            (Arc::clone(&log), Arc::clone(&resolved));
        let resolver = Box::new(move |name: &str| {
            count.fetch_add(1, Ordering::Relaxed);
            match name.ends_with(".example") {
                true => Ok(vec![IpAddr::from([127, 0, 0, 1])]),
                false => Err(std::io::Error::other("no such name")),
            }
        });
        let proxy = Proxy::start_with(
            &folder.path().join("box"),
            Allowed::parse(allowed).unwrap(),
            Options { limits, resolver, manner },
            move |passage| own_log.lock().unwrap().push(passage),
        );
        Rig { folder, proxy: Some(proxy.unwrap()), log, resolved }
    }

    pub(super) fn folder(&self) -> std::path::PathBuf {
        self.folder.path().join("box")
    }

    pub(super) fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.proxy.as_ref().unwrap().socket()).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    /// Sends bytes, ends, and reads to the end.
    pub(super) fn ask(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        let mut answer = Vec::new();
        // A connection that was closed before, or with bytes unread, counts as ended.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// What the log says, once it holds as many lines: decision, host, whether bytes went.
    pub(super) fn told(&self, lines: usize) -> Vec<(Decision, String)> {
        let began = Instant::now();
        loop {
            let log = self.log.lock().unwrap();
            if log.len() >= lines || began.elapsed() > LONG {
                return log
                    .iter()
                    .map(|entry| (entry.decision, format!("{}:{}", entry.host, entry.port)))
                    .collect();
            }
            drop(log);
            std::thread::yield_now();
        }
    }

    pub(super) fn reasons(&self, lines: usize) -> Vec<String> {
        self.told(lines);
        self.log.lock().unwrap().iter().map(|entry| entry.reason.clone()).collect()
    }
}

/// A server on this machine that counts who connects.
pub(super) struct Server {
    pub(super) port: u16,
    pub(super) connections: Arc<AtomicUsize>,
    /// Everything that was sent to it.
    pub(super) heard: Arc<Mutex<Vec<u8>>>,
}

impl Server {
    /// A server that does with each connection what it is told.
    pub(super) fn new(
        serve: impl Fn(TcpStream, &Mutex<Vec<u8>>) + Send + Sync + 'static,
    ) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (connections, heard) = (Arc::new(AtomicUsize::new(0)), Arc::default());
        let (count, ear, serve) = (Arc::clone(&connections), Arc::clone(&heard), Arc::new(serve));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                count.fetch_add(1, Ordering::SeqCst);
                let (stream, serve, ear) = (stream.unwrap(), Arc::clone(&serve), Arc::clone(&ear));
                std::thread::spawn(move || serve(stream, &ear));
            }
        });
        Server { port, connections, heard }
    }

    /// A web server that answers every head with these bytes and ends.
    pub(super) fn answering(answer: impl Into<Vec<u8>>) -> Server {
        let answer = answer.into();
        Server::new(move |mut stream, heard| {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|got| got == 1) {
                head.push(byte[0]);
            }
            heard.lock().unwrap().extend_from_slice(&head);
            let _ = stream.write_all(&answer);
        })
    }

    /// A server that sends back what it is sent.
    pub(super) fn echoing() -> Server {
        Server::new(|mut stream, heard| {
            let mut buffer = [0; 4096];
            while let Ok(got @ 1..) = stream.read(&mut buffer) {
                heard.lock().unwrap().extend_from_slice(&buffer[..got]);
                if stream.write_all(&buffer[..got]).is_err() {
                    break;
                }
            }
        })
    }

    pub(super) fn count(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(super) fn heard(&self) -> String {
        String::from_utf8_lossy(&self.heard.lock().unwrap()).into_owned()
    }
}

pub(super) fn read_some(stream: &mut UnixStream, count: usize) -> Vec<u8> {
    let mut buffer = vec![0; count];
    stream.read_exact(&mut buffer).unwrap();
    buffer
}

pub(super) const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// A tunnel to a host and port, ready to be talked through.
pub(super) fn tunnel(rig: &Rig, target: &str) -> UnixStream {
    let mut stream = rig.connect();
    write!(stream, "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").unwrap();
    assert_eq!(read_some(&mut stream, ESTABLISHED.len()), ESTABLISHED);
    stream
}
