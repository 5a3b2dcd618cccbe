//! What editors do to a file by opening and closing it, without anybody having changed anything.

use super::*;

#[test]
fn a_final_break_that_an_editor_adds_and_takes_away_again_is_no_change() {
    for text in ["alpha\nomega", "alpha\r\nomega"] {
        let path = "/w/a.txt";
        let key = FileKey::Path(path.into());
        let end = if text.contains('\r') { "\r\n" } else { "\n" };
        let mut bench = Bench::new(true, false, Luck::Good);
        bench.disk.insert(path.into(), text.to_string());
        bench.open_as(path, key, format!("{text}{end}"));
        bench.settle();
        bench.read(path);
        bench.close(path);
        assert_eq!(bench.edit(path, "alpha", "beta"), None, "{text:?}");
        assert_eq!(bench.disk[Path::new(path)], text.replace("alpha", "beta"));
    }
}

#[test]
fn what_was_typed_and_not_saved_is_seen_nowhere_once_it_is_closed() {
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.set(OPEN[0], OLD.trim_end().to_string());
    bench.settle();
    bench.read(OPEN[0]);
    bench.close(OPEN[0]);
    let stale = Some(Code::FsStaleVersion);
    assert_eq!(bench.edit(OPEN[0], "alpha", "beta"), stale);
}
