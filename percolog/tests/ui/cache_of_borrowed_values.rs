// error: E0597
use percolog::collections::Cache;
use percolog::reclaim::Domain;

static DOMAIN: Domain = Domain::new();

fn main() {
    let cache = Cache::<u32, &str>::builder(1 << 16).build(&DOMAIN).unwrap();
    {
        let text = String::from("here");
        #[cfg(feature = "wrong")]
        let text = text.as_str();
        #[cfg(not(feature = "wrong"))]
        let text = if text.is_empty() { "" } else { "here" };
        cache.set(1, text).unwrap();
    }
    assert_eq!(cache.len(), 1);
}
