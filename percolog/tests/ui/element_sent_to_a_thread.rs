// error: E0277
use percolog::dhash::DHash;

fn main() {
    let table: DHash<u64, (), u64> = DHash::new(|_, ()| 0);
    let element = table.find_or_allocate_and_lock(&1, |_| ());
    #[cfg(not(feature = "wrong"))]
    let element = element.map(|element| *element);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _element = element;
        });
    });
}
