// error: E0505
use percolog::collections::Cache;
use percolog::reclaim::Domain;

static DOMAIN: Domain = Domain::new();

fn main() {
    let cache = Cache::<u32, u32>::builder(1 << 16).build(&DOMAIN).unwrap();
    cache.set(1, 2).unwrap();
    let section = DOMAIN.enter();
    let value = cache.get(&section, &1);
    #[cfg(feature = "wrong")]
    drop(section);
    assert_eq!(value, Some(&2));
}
