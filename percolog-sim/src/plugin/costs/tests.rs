use super::*;
use crate::model::ticks;
use crate::plugin::architecture::x86_64;

/// What each of these instructions costs in a block of them.
fn of(costs: &Costs, block: &[&[u8]]) -> Vec<Ticks> {
    let block: Vec<_> = block
        .iter()
        .map(|bytes| (x86_64::decode(bytes, 0x1000), x86_64::is_load_fence(bytes)))
        .collect();
    of_block(costs, &block)
}

const ADD: &[u8] = &[0x48, 0x01, 0xc0];
const LOAD: &[u8] = &[0x49, 0x8b, 0x09];
const STORE: &[u8] = &[0x49, 0x89, 0x09];
const ADD_TO_MEMORY: &[u8] = &[0x49, 0x01, 0x09];
const DIVIDE: &[u8] = &[0x49, 0xf7, 0xf0];
const MULTIPLY: &[u8] = &[0x48, 0x0f, 0xaf, 0xc0];
const ADD_FLOAT: &[u8] = &[0xf2, 0x0f, 0x58, 0xc1];
const DIVIDE_FLOAT: &[u8] = &[0xf2, 0x0f, 0x5e, 0xc1];
const JUMP: &[u8] = &[0x75, 0xfe];
const LOCKED: &[u8] = &[0xf0, 0x49, 0x01, 0x09];
const MFENCE: &[u8] = &[0x0f, 0xae, 0xf0];
const LFENCE: &[u8] = &[0x0f, 0xae, 0xe8];

/// A core of four instructions at a time, whose units take these cycles.
fn wide() -> Costs {
    Costs {
        plain: ticks(1) / 4,
        width: 4,
        units: Units {
            load: ticks(1) / 2,
            store: ticks(1),
            branch: ticks(2),
            multiply: ticks(3),
            divide: ticks(20),
            float: ticks(1),
            float_divide: ticks(13),
        },
        ..crate::model::Machine::flat("flat", 1).costs
    }
}

#[test]
fn without_units_each_instruction_costs_what_its_class_does() {
    let costs = crate::model::Machine::flat("flat", 1).costs;
    assert_eq!(
        of(
            &costs,
            &[ADD, DIVIDE, LOAD, LOCKED, ADD, MFENCE, LFENCE, JUMP]
        ),
        [1, 1, 1, 20, 1, 30, 10, 1].map(ticks)
    );
}

#[test]
fn a_block_takes_as_long_as_the_busiest_unit() {
    let costs = wide();
    let quarter = ticks(1) / 4;
    // The width: whatever is executed, where no unit takes longer.
    assert_eq!(of(&costs, &[ADD; 8]), [quarter; 8]);
    assert_eq!(of(&costs, &[ADD, LOAD, ADD, ADD]), [quarter; 4]);
    // A unit: the others go on meanwhile.
    assert_eq!(of(&costs, &[ADD, LOAD, LOAD, LOAD]), [0, 8, 8, 8]);
    assert_eq!(of(&costs, &[ADD, DIVIDE, LOAD, ADD]), [0, ticks(20), 0, 0]);
    assert_eq!(of(&costs, &[MULTIPLY, ADD, MULTIPLY]), [48, 0, 48]);
    assert_eq!(of(&costs, &[STORE, ADD_TO_MEMORY]), [16, 16]);
    assert_eq!(of(&costs, &[ADD_FLOAT, ADD, ADD_FLOAT]), [16, 0, 16]);
    assert_eq!(of(&costs, &[ADD_FLOAT, DIVIDE_FLOAT]), [0, ticks(13)]);
    assert_eq!(of(&costs, &[ADD, ADD, JUMP]), [0, 0, ticks(2)]);
}

#[test]
fn what_waits_for_all_before_it_ends_a_stretch() {
    let costs = wide();
    assert_eq!(
        of(
            &costs,
            &[DIVIDE, LOCKED, DIVIDE, MFENCE, LOCKED, ADD, LFENCE]
        ),
        [
            ticks(20),
            ticks(20),
            ticks(20),
            ticks(30),
            ticks(20),
            4,
            ticks(10)
        ]
    );
}

#[test]
fn a_width_that_does_not_divide_a_cycle_is_made_up_for_in_a_block() {
    let costs = Costs {
        plain: 3,
        width: 6,
        ..wide()
    };
    assert_eq!(of(&costs, &[ADD; 6]).iter().sum::<Ticks>(), ticks(1));
    assert_eq!(of(&costs, &[ADD; 600]).iter().sum::<Ticks>(), ticks(100));
    for length in 1..100 {
        let all: Ticks = of(&costs, &vec![ADD; length]).iter().sum();
        let least = length as Ticks * TICKS_PER_CYCLE;
        assert!((least..least + 6).contains(&(all * 6)), "{length}: {all}");
        assert!(all > 0, "time passes in each block");
    }
}

#[test]
fn an_element_of_a_repeated_instruction_costs_what_one_of_its_kind_does() {
    let copy = x86_64::decode(&[0xf3, 0xa4], 0x1000);
    assert_eq!(of_element(&wide(), &copy), ticks(1), "a load and a store");
    let flat = crate::model::Machine::flat("flat", 1).costs;
    assert_eq!(of_element(&flat, &copy), ticks(1));
}
