//! Files with several names, and documents that were opened by one of them.

use super::*;

#[test]
fn a_file_is_the_one_that_the_editor_opened_by_a_name_wherever_the_name_leads_by_now() {
    let (link, target, elsewhere) = ("/w/link.txt", "/w/target.txt", "/w/elsewhere.txt");
    let mut bench = Bench::new(true, false, Luck::Good);
    for path in [target, elsewhere] {
        bench.disk.insert(path.into(), OLD.to_string());
    }
    bench.links.insert(link.into(), target.into());
    bench.open_as(link, FileKey::Path(target.into()), OLD.to_string());
    bench.settle();
    bench.read(link);
    bench.links.insert(link.into(), elsewhere.into());
    assert_eq!(bench.edit(link, "alpha", "beta"), None);
    assert_eq!(
        bench.documents[link].text,
        OLD.replace("alpha", "beta"),
        "it is the editor's"
    );
    assert_eq!(bench.disk[Path::new(elsewhere)], OLD);
}

#[test]
fn a_file_that_the_editor_shows_twice_is_open_until_both_are_closed() {
    let link = "/w/link.txt";
    for (first, left) in [(OPEN[0], link), (link, OPEN[0])] {
        let mut bench = Bench::new(true, false, Luck::Good);
        bench.open_as(link, FileKey::Path(OPEN[0].into()), OLD.to_string());
        bench.settle();
        bench.close(first);
        assert_eq!(bench.edit(OPEN[0], "alpha", "beta"), None);
        let edited = OLD.replace("alpha", "beta");
        assert_eq!(bench.documents[left].text, edited, "it is the editor's");
        assert_eq!(bench.disk[Path::new(OPEN[0])], OLD);
    }
}
