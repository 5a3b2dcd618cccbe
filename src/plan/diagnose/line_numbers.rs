//! Line numbers that were pasted along with a text.

/// A pasted listing without its line numbers (`12: `, `12→`, `  12|`); none if not every line has one.
pub(super) fn without_line_numbers(old: &str, eats_blank: bool) -> Option<String> {
    let mut last_number: Option<u32> = None;
    let mut sign = None;
    let mut lines = Vec::new();
    for line in old.split('\n') {
        if line.trim().is_empty() {
            lines.push(line);
            continue;
        }
        let line = line.trim_start();
        let n_digits = line.bytes().take_while(u8::is_ascii_digit).count();
        let number = line[..n_digits].parse().ok()?;
        if last_number.replace(number).is_some_and(|it| it >= number) {
            return None;
        }
        let behind = &line[n_digits..];
        let behind = if behind.starts_with('\t') {
            behind
        } else {
            behind.trim_start()
        };
        let c = behind.chars().next()?;
        if !matches!(c, '\t' | ':' | '|' | '→' | '│') || *sign.get_or_insert(c) != c {
            return None;
        }
        let rest = &behind[c.len_utf8()..];
        lines.push(match rest.strip_prefix(' ') {
            Some(rest) if eats_blank => rest,
            _ => rest,
        });
    }
    let text = lines.join("\n");
    (!text.trim().is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_has_rising_numbers_one_sign_and_some_text() {
        let text = |old| without_line_numbers(old, true);
        assert_eq!(text("1: a\n\n3: b").as_deref(), Some("a\n\nb"));
        assert_eq!(text("1\ta\n2\t\tb").as_deref(), Some("a\n\tb"));
        for other in [
            "1: a\n2| b",
            "1 a\n2 b",
            "2: a\n1: b",
            "1: a\nb",
            "1: \n2: ",
            "\n",
        ] {
            assert_eq!(text(other), None);
        }
    }
}
