//! Cases made of bytes, so that a fuzzer can change them bit by bit and short bytes make small cases.

use abreast::text::{Text, buffer::Buffer};

use super::twin;

/// Small alphabets, so that what is rare elsewhere happens all the time.
const ALPHABETS: [&[&str]; 9] = [
    &["a", "b"],
    &["-", "—", "–", "\u{2011}", "a"],
    &[".", "…", "a", "..."],
    &["\"", "“", "”", "'", "’", "a"],
    &["e", "\u{301}", "\u{327}", "é", "K", "\u{212A}"],
    &["\u{1100}", "\u{1161}", "\u{11A8}", "가", "각"],
    &[" ", "\u{A0}", "\u{2003}", "\u{3000}", "\t", "\u{200B}"],
    &["\n", "\r\n", "\r", "a", "—"],
    &["👩", "\u{200D}", "❤", "\u{FE0F}", "\u{1F3FD}", "a", "—"],
];
const BOM: &str = "\u{FEFF}";

/// The bytes that are left; behind the last come zeros.
pub struct Source<'a> {
    bytes: &'a [u8],
    alphabet: Vec<&'static str>,
}

impl<'a> Source<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        let mut source = Self {
            bytes,
            alphabet: Vec::new(),
        };
        let one = source.below(ALPHABETS.len() + 1);
        let chosen = ALPHABETS.get(one).copied();
        source.alphabet = match chosen {
            Some(alphabet) => alphabet.to_vec(),
            None => ALPHABETS.concat(),
        };
        source
    }

    pub fn byte(&mut self) -> u8 {
        match self.bytes.split_first() {
            Some((&byte, rest)) => {
                self.bytes = rest;
                byte
            }
            None => 0,
        }
    }

    /// A number below `n`, at most 256.
    pub fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n
    }

    pub fn flip(&mut self) -> bool {
        self.below(2) == 1
    }

    /// What is left.
    pub fn rest(self) -> &'a [u8] {
        self.bytes
    }

    /// Up to `most` signs of the alphabet.
    pub fn text(&mut self, most: usize) -> String {
        let n_signs = self.below(most + 1);
        (0..n_signs)
            .map(|_| {
                let idx = self.below(self.alphabet.len());
                self.alphabet[idx]
            })
            .collect()
    }

    /// A text as an editor or a disk has it; a few are longer than a chunk of a rope, which is about 1 KB.
    pub fn document(&mut self) -> String {
        let shape = self.byte();
        let mut raw = String::new();
        if shape.is_multiple_of(4) {
            raw.push_str(BOM);
        }
        if shape >= 0xFC {
            let filler = ["x", "-", "…", "\r\n"][self.below(4)];
            raw.push_str(&filler.repeat((880 + self.below(256)) / filler.len()));
        }
        raw + &self.text(12)
    }

    /// What is looked for, a view text of at least one character: often a part of the document, with signs exchanged
    /// for others of the alphabet.
    pub fn needle(&mut self, raw: &str) -> String {
        let view: Vec<char> = twin::view(raw).into_iter().map(|it| it.0).collect();
        let mut needle = if self.flip() && !view.is_empty() {
            let start = (self.below(256) << 8 | self.below(256)) % view.len();
            let end = view.len().min(start + 1 + self.below(5));
            let mut part: Vec<String> = view[start..end].iter().map(char::to_string).collect();
            for sign in &mut part {
                if self.below(4) == 0 {
                    *sign = self.text(1);
                }
            }
            part.concat()
        } else {
            self.text(4)
        };
        needle = needle.replace("\r\n", "\n");
        if needle.is_empty() {
            "a".to_string()
        } else {
            needle
        }
    }

    pub fn most(&mut self) -> usize {
        [1, 2, 1000, usize::MAX][self.below(4)]
    }
}

/// The text of an open document and of a closed file.
pub fn both(raw: &str) -> [Text; 2] {
    [Buffer::new(raw, true).text(), Text::flat(raw)]
}
