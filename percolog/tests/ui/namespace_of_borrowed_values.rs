// error: E0597
use percolog::namespace::Namespace;
use percolog::reclaim::Domain;

static DOMAIN: Domain = Domain::new();

/// Takes values that live as long as the namespace says.
fn insert<'a>(names: &Namespace<'_, &'a str>, value: &'a str) {
    names.insert(value).unwrap();
}

fn main() {
    #[cfg(not(feature = "wrong"))]
    let text = String::from("here");
    let names: Namespace<'_, &str> = Namespace::new(&DOMAIN);
    {
        #[cfg(feature = "wrong")]
        let text = String::from("here");
        insert(&names, &text);
    }
    assert_eq!(names.len(), 1);
}
