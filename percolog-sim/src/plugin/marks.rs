//! The marks that a program makes with `percolog-roi`.

use crate::model::{Core, CoreSet};
use crate::plugin::memory;
use crate::plugin::simulator::Simulator;
use crate::plugin::syscalls::Call;

/// The number of the system call that no kernel has.
pub(crate) const MARK: u64 = 0x5045_524f;
const BEGIN: u64 = 1;
const END: u64 = 2;
const LABEL: u64 = 3;
const CORE: u64 = 4;
/// The longest name of a label.
const NAME: u64 = 256;
const EINVAL: i64 = 22;

/// Heeds a mark; the result is the system call's.
pub(crate) fn mark(simulator: &mut Simulator, call: &Call) -> i64 {
    let me = simulator.current();
    let now = simulator.now();
    let [operation, first, length, name, name_length, _] = call.arguments;
    match operation {
        BEGIN => simulator.enter_region(me, now),
        END => simulator.tally.end(me, first, now),
        LABEL => {
            let mut bytes = vec![0; name_length.min(NAME) as usize];
            if !memory::read(name, &mut bytes) {
                return -EINVAL;
            }
            let name = String::from_utf8_lossy(&bytes).into_owned();
            simulator.free_label(first, length, &name);
            let place = simulator.place(first);
            simulator.tally.label(place, length, name);
        }
        CORE if first < simulator.settings.machine.processors() as u64 => {
            simulator.bind(CoreSet::only(first as Core));
        }
        _ => return -EINVAL,
    }
    0
}
