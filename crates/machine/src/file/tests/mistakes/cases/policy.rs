//! Mistakes in policies.

super::mistakes! {
    Policy "policy.toml" "an unknown profile" "profile = \"devel\"\n";
    Policy "policy.toml" "a misspelled table" "[[rules]]\ntool = \"shell\"\ndecide = \"ask\"\n";
    Policy "policy.toml" "a misspelled key of a rule" "[[rule]]\ncommand = \"ls\"\nacess = \"read\"\ndecide = \"deny\"\n";
    Policy "policy.toml" "a rule that decides nothing" "[[rule]]\ncommand = \"ls\"\n";
    Policy "policy.toml" "a rule that means nothing" "[[rule]]\ndecide = \"deny\"\n";
    Policy "policy.toml" "a rule that is no table" "rule = [\"ls\"]\n";
    Policy "policy.toml" "a misspelled decision" "[[rule]]\ntool = \"shell\"\ndecide = \"alow\"\n";
    Policy "policy.toml" "a tool that does not exist" "[[rule]]\ntool = \"shel\"\ndecide = \"ask\"\n";
    Policy "policy.toml" "a tool that runs no commands" "[[rule]]\ntool = \"read\"\ncommand = \"cat\"\ndecide = \"allow\"\n";
    Policy "policy.toml" "two commands in one pattern" "[[rule]]\ncommand = \"make && make install\"\ndecide = \"allow\"\n";
    Policy "policy.toml" "a redirection in a pattern" "[[rule]]\ncommand = \"echo * > out\"\ndecide = \"allow\"\n";
    Policy "policy.toml" "quotes in a pattern" "[[rule]]\ncommand = \"echo 'x y'\"\ndecide = \"allow\"\n";
    Policy "policy.toml" "an empty pattern" "[[rule]]\ncommand = \" \"\ndecide = \"allow\"\n";
    Policy "policy.toml" "an empty list of patterns" "[[rule]]\ncommand = []\ndecide = \"allow\"\n";
    Policy "policy.toml" "a path with dots" "[[rule]]\npath = \"../x\"\ndecide = \"deny\"\n";
    Policy "policy.toml" "a variable in a path" "[[rule]]\npath = \"$HOME/x\"\ndecide = \"deny\"\n";
    Policy "policy.toml" "the home of somebody else" "[[rule]]\npath = \"~bob/x\"\ndecide = \"deny\"\n";
    Policy "policy.toml" "an address for a host" "[[rule]]\nhost = \"https://crates.io/api\"\ndecide = \"allow\"\n";
    Policy "policy.toml" "access without a path" "[[rule]]\ncommand = \"ls\"\naccess = \"read\"\ndecide = \"allow\"\n";
    Policy "policy.toml" "a rule behind one that means all of it" "[[rule]]\ncommand = \"git\"\ndecide = \"allow\"\n[[rule]]\ncommand = \"git push\"\ndecide = \"deny\"\n";
    Policy "policy.toml" "an example that cannot be called" "[[rule]]\ntool = \"*\"\ndecide = \"ask\"\nask = ['read: {\"pth\": 1}']\n";
    Policy "policy.toml" "an empty example" "[[rule]]\ntool = \"*\"\ndecide = \"ask\"\nask = [\" \"]\n";
    Policy "policy.toml" "an example that is not JSON" "[[rule]]\ntool = \"*\"\ndecide = \"ask\"\nask = ['read: {']\n";
    Policy "policy.toml" "nobody to escalate to" "unattended = \"escalate\"\n";
    Policy "policy.toml" "deciders that are never asked" "[[decider]]\nkind = \"person\"\n";
    Policy "policy.toml" "a decider of an unknown kind" "unattended = \"escalate\"\n[[decider]]\nkind = \"modle\"\n";
    Policy "policy.toml" "a decider without its keys" "unattended = \"escalate\"\n[[decider]]\nkind = \"model\"\n";
    Policy "policy.toml" "a key of another kind of decider" "unattended = \"escalate\"\n[[decider]]\nkind = \"person\"\nmodel = \"a/b\"\n";
    Policy "policy.toml" "two deciders of one name" "unattended = \"escalate\"\n[[decider]]\nkind = \"person\"\n[[decider]]\nkind = \"person\"\n";
    Policy "policy.toml" "an empty rubric" "unattended = \"escalate\"\n[[decider]]\nkind = \"model\"\nmodel = \"x\"\nrubric = \" \"\n";
    Policy "policy.toml" "an empty program" "unattended = \"escalate\"\n[[decider]]\nkind = \"program\"\ncommand = []\n";
    Policy "policy.toml" "a policy that weakens the sandbox" "[sandbox]\nlevel = \"reduced\"\n";
    Policy "policy.toml" "an unknown network" "[sandbox]\nnetwork = \"all\"\n";
}
