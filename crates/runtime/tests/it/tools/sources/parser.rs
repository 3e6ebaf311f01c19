//! A small parser.

use std::fmt;

/// The most tokens.
pub const MOST: usize = 1 << 10;
static mut COUNT: u32 = 0; // not this one's neighbour
type Tokens = Vec<Token>;

/// A token.
#[derive(Debug, Clone)]
pub enum Token {
    Word(String),
    End,
}

pub struct Unit;
pub(crate) struct Pair<A, B>(pub A, pub B)
where
    A: Clone;

/// Parses.
#[derive(Debug)]
pub struct Parser<'a> {
    text: &'a str,
    tokens: Tokens,
}

impl<'a> Parser<'a> {
    const STEP: usize = 2;

    /// Makes one.
    pub fn new(text: &'a str) -> Self {
        fn inner() {}
        inner();
        Parser { text, tokens: Vec::new() }
    }

    // Takes a token.
    // It may refuse.
    #[must_use]
    pub async fn push<F>(
        &mut self,
        token: Token,
        with: F,
    ) -> Result<(), fmt::Error>
    where
        F: Fn(&Token) -> bool,
    {
        Ok(())
    }
}

impl fmt::Display for Parser<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

pub trait Visit {
    type Out: Default;
    fn visit(&self) -> Self::Out;
    fn twice(&self) -> (Self::Out, Self::Out) {
        (self.visit(), self.visit())
    }
}

macro_rules! shout {
    ($e:expr) => { $e };
}

extern "C" {
    fn abs(input: i32) -> i32;
}

mod deep {
    pub mod deeper {
        pub(super) fn push() {}
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_works() {}
}
