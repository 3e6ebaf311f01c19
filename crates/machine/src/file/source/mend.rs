//! What to do about a text that is no TOML or YAML, or holds what plain data cannot.

/// Parts of messages, and what helps.
const KNOWN: [(&str, &str); 25] = [
    ("mapping values are not allowed", "a value with \": \" or a bracket in it needs quotes"),
    ("must be quoted", "put text in quotes"),
    ("basic string", "close the text with a quote; \"\"\" begins one of several lines"),
    ("literal string", "close the text with a quote; ''' begins one of several lines"),
    ("unclosed", "add the bracket that closes it"),
    ("with no value", "write key = value"),
    ("missing value", "write a value: text stands in quotes"),
    ("duplicate key", "remove one of the two"),
    ("duplicate mapping key", "remove one of the two"),
    ("not UTF-8", "save the file as UTF-8"),
    ("NUL byte", "remove it; the file may have been saved in another encoding than UTF-8"),
    ("the file is empty", "write it, or remove the file"),
    ("nests too deeply", "nothing here needs so many tables inside each other"),
    ("more than 64 bits", "write a smaller number"),
    ("must be finite", "write a number such as 0.5"),
    ("dates are not used", "write \"2030-01-01\""),
    ("more than one document", "remove the line --- and all after it, or make two files of it"),
    ("aliases", "write out what the aliases stand for"),
    ("merge keys", "write the keys out"),
    ("tag", "remove the word that begins with !"),
    ("plain text", "put the key in quotes"),
    ("recursion limit", "nothing here needs so many tables inside each other"),
    ("escape", "write \\\\ for one \\, or put the text in single quotes"),
    ("tab", "indent with spaces"),
    ("indentation", "put keys of one table at the same distance from the left"),
];

/// What to do about a message of a parser.
pub(super) fn hint(message: &str) -> String {
    let known = KNOWN.iter().find(|(part, _)| message.contains(part));
    let hint =
        known.map_or("look for a quote, a bracket or a comma that is missing near here", |it| it.1);
    hint.to_owned()
}
