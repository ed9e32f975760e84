use super::*;
use crate::model::{
    Coherence, Costs, MAX_CORES, Occupancy, Protocol, Stores, TICKS_PER_CYCLE, Units,
};
use serde_json::{Value, json};

const PAIR: &str = r#"
name = "pair"
description = "Two chips of four cores"
source = ["here"]
megahertz = 2000
protocol = "moesi"
[topology]
chips = 2
cores_per_chip = 4
links = [[0, 1]]
[latency]
transfer = [100, 200]
memory = [150, 250]
[occupancy]
read = 0.25
write = 1
upgrade = 0.5
[costs]
plain = 0.0625
locked = 20
fence = 30
rdtsc = 20.5
rdtscp = 30
pause = 10
cpuid = 100
syscall = 400
switch = 3000
"#;

fn read(text: &str) -> Result<Description, String> {
    parse("test", text).map_err(|error| {
        let text = error.to_string();
        assert!(
            !text.contains('\n') && text.starts_with("machine test"),
            "{text}"
        );
        text
    })
}

#[test]
fn fields_arrive() {
    let Description {
        machine,
        description,
        source,
    } = read(PAIR).unwrap();
    assert_eq!(
        (description.as_str(), source.as_slice()),
        ("Two chips of four cores", &["here".to_owned()][..])
    );
    assert_eq!(
        (machine.name.as_str(), machine.cores, machine.chips),
        ("pair", 8, 2)
    );
    assert_eq!(machine.hops, [[0, 1], [1, 0]]);
    assert_eq!(
        (machine.line_size, machine.page_size, machine.megahertz),
        (64, 4096, 2000)
    );
    assert_eq!(
        (machine.protocol, machine.coherence),
        (Protocol::Moesi, Coherence::Directory)
    );
    assert_eq!(
        (machine.chip_directory, machine.stores),
        (false, Stores::Blocking)
    );
    assert_eq!(
        (machine.transfer, machine.memory),
        (vec![100, 200], vec![150, 250])
    );
    assert_eq!(
        machine.occupancy,
        Occupancy {
            read: 64,
            write: 256,
            upgrade: 128
        }
    );
    assert_eq!(
        (
            machine.costs.plain,
            machine.costs.rdtsc,
            machine.costs.switch
        ),
        (1, 328, 48_000)
    );
    assert_eq!(
        (machine.costs.interrupt, machine.adjacent_line_prefetch),
        (0, false)
    );
    assert_eq!(
        (
            machine.costs.locked,
            machine.costs.fence,
            machine.costs.rdtscp
        ),
        (320, 480, 480)
    );
    assert_eq!(
        (
            machine.costs.pause,
            machine.costs.cpuid,
            machine.costs.syscall
        ),
        (160, 1600, 6400)
    );
    assert_eq!(
        machine.time_slice,
        1000 * 2000 * TICKS_PER_CYCLE,
        "a millisecond"
    );
}

/// A file that leaves nothing out.
fn with_options() -> String {
    PAIR
        .replace("links = [[0, 1]]", "chips_per_package = 1\nthreads_per_core = 2\nlast_level_cache_kib = 6144")
        .replace("transfer = [100, 200]", "transfer = [100, 200, 300]\nbus = 9\nmemory_occupancy = 8\ninvalidate_per_sharer = 3")
        .replace("memory = [150, 250]", "memory = [150, 250, 350]")
        .replace(
            "protocol = \"moesi\"",
            "protocol = \"mesi\"\ncoherence = \"bus\"\nstores = \"buffered(56)\"\nchip_directory = true\nadjacent_line_prefetch = true\nline_size = 128\npage_size = 65536",
        )
        .replace("plain = 0.0625", "width = 6")
        + "interrupt = 4000\nsmt_slowdown = 1.6\n[scheduling]\ntime_slice_us = 5\n\
           [units]\nload = 0.5\nstore = 1\nbranch = 2\nmultiply = 3\ndivide = 17\nfloat = 0.25\nfloat_divide = 5\n"
}

#[test]
fn options_are_read() {
    let machine = read(&with_options()).unwrap().machine;
    assert_eq!(machine.hops, [[0, 2], [2, 0]]);
    assert_eq!(
        (
            machine.bus,
            machine.invalidate_per_sharer,
            machine.memory_occupancy
        ),
        (9, 3, 8)
    );
    assert_eq!(
        (machine.protocol, machine.coherence),
        (Protocol::Mesi, Coherence::Bus)
    );
    assert_eq!(
        (machine.stores, machine.chip_directory),
        (Stores::Buffered(56), true)
    );
    assert_eq!((machine.line_size, machine.page_size), (128, 65536));
    assert_eq!(
        (machine.costs.interrupt, machine.adjacent_line_prefetch),
        (4000 * TICKS_PER_CYCLE, true)
    );
    assert_eq!(machine.time_slice, 5 * 2000 * 16);
    assert_eq!(
        (machine.threads_per_core, machine.costs.smt_slowdown),
        (2, 410)
    );
    assert_eq!(machine.last_level_cache, 6 << 20);
    // A sixth of a cycle is no number of ticks: whoever needs one number is told the next.
    assert_eq!((machine.costs.width, machine.costs.plain), (6, 3));
    assert_eq!(
        machine.costs.units,
        Units {
            load: 8,
            store: 16,
            branch: 32,
            multiply: 48,
            divide: 272,
            float: 4,
            float_divide: 80,
        }
    );
    let plain = read(PAIR).unwrap().machine.costs;
    assert_eq!((plain.width, plain.units), (0, Units::default()));
    assert_eq!(plain.smt_slowdown, Costs::ALONE);
}

#[test]
fn every_error_says_where_and_how_to_go_on() {
    // What is replaced by what, and what the error must name: the field, the value, and what would
    // do.
    let wrong: &[(&str, &str, &[&str])] = &[
        ("megahertz = 2000", "", &["missing field", "megahertz"]),
        (
            "megahertz = 2000",
            "megahertz = 2000\ncolour = 3",
            &["line 6", "unknown field", "colour"],
        ),
        (
            "megahertz = 2000",
            "megahertz = \"fast\"",
            &["line 5", "fast"],
        ),
        (
            "megahertz = 2000",
            "megahertz = 0",
            &["megahertz 0", "at least 1"],
        ),
        (
            "chips = 2",
            "threads_per_core = 0\nchips = 2",
            &["topology.threads_per_core 0", "at least 1"],
        ),
        (
            "chips = 2",
            "threads_per_core = 2\nchips = 2",
            &["costs.smt_slowdown", "all 2 threads"],
        ),
        (
            "plain = 0.0625",
            "plain = 0.0625\nsmt_slowdown = 1.5",
            &["costs.smt_slowdown", "topology.threads_per_core"],
        ),
        ("megahertz = 2000", "megahertz 2000", &["line 5"]),
        (
            "name = \"pair\"",
            "name = \"a pair\"",
            &["name", "a pair", "letters"],
        ),
        ("[\"here\"]", "[]", &["source"]),
        (
            "\"moesi\"",
            "\"dragon\"",
            &["line 6", "dragon", "mesi", "moesi"],
        ),
        (
            "chips = 2",
            "chips = 0",
            &["topology", "0 chips", "1 to 1024"],
        ),
        (
            "cores_per_chip = 4",
            "cores_per_chip = 513",
            &["513 cores", "1024"],
        ),
        ("chips = 2", "chips = 18446744073709551615", &["topology"]),
        ("links = [[0, 1]]", "", &["links", "chips_per_package"]),
        (
            "links = [[0, 1]]",
            "links = [[0, 1]]\nchips_per_package = 2",
            &["leave one out"],
        ),
        (
            "links = [[0, 1]]",
            "links = []",
            &["no way from chip 0 to chip 1", "add a link"],
        ),
        (
            "links = [[0, 1]]",
            "links = [[0, 2]]",
            &["[0, 2]", "0 to 1"],
        ),
        (
            "links = [[0, 1]]",
            "links = [[1, 1]]",
            &["[1, 1]", "different"],
        ),
        (
            "links = [[0, 1]]",
            "chips_per_package = 3",
            &["chips_per_package 3", "divide 2"],
        ),
        (
            "transfer = [100, 200]",
            "transfer = []",
            &["transfer", "0 latencies", "must have 2"],
        ),
        (
            "transfer = [100, 200]",
            "transfer = [100]",
            &["transfer", "1 latencies", "must have 2"],
        ),
        (
            "transfer = [100, 200]",
            "transfer = [200, 100]",
            &["transfer", "200", "100", "must not fall"],
        ),
        (
            "memory = [150, 250]",
            "memory = [0, 250]",
            &["memory 0", "1 to"],
        ),
        (
            "memory = [150, 250]",
            "memory = [150, 250]\nbus = 5",
            &["bus 5", "coherence"],
        ),
        (
            "memory = [150, 250]",
            "memory = [150, 250]\ninvalidate_per_sharer = 4000000000",
            &["invalidate_per_sharer 4000000000"],
        ),
        (
            "megahertz = 2000",
            "megahertz = 2000\nline_size = 48",
            &["line_size 48", "power of two", "16 to 1024"],
        ),
        (
            "megahertz = 2000",
            "megahertz = 2000\nline_size = 8",
            &["line_size 8", "16"],
        ),
        (
            "megahertz = 2000",
            "megahertz = 2000\npage_size = 32",
            &["page_size 32", "64"],
        ),
        (
            "megahertz = 2000",
            "megahertz = 2000\nstores = \"buffered\"",
            &["stores", "buffered(N)"],
        ),
        (
            "megahertz = 2000",
            "megahertz = 2000\nstores = \"buffered(0)\"",
            &["stores", "1 to 1024"],
        ),
        (
            "read = 0.25",
            "read = 1.5",
            &["occupancy.read 1.5", "0", "1"],
        ),
        ("read = 0.25", "read = nan", &["occupancy.read NaN"]),
        ("plain = 0.0625", "plain = 0", &["costs.plain 0", "1/16"]),
        (
            "cpuid = 100",
            "cpuid = 0.1",
            &["costs.cpuid 0.1", "0.0625", "0.125"],
        ),
        (
            "megahertz = 2000",
            "megahertz = 4294967295",
            &["megahertz 4294967295", "100000"],
        ),
        (
            "[topology]",
            "[scheduling]\ntime_slice_us = 4294967295\n[topology]",
            &["time_slice_us 4294967295", "1000000000"],
        ),
        (
            "megahertz = 2000",
            "megahertz = 2000\npage_size = 9223372036854775808",
            &["9223372036854775808"],
        ),
        (
            "megahertz = 2000",
            "megahertz = 2000\npage_size = 4611686018427387904",
            &["page_size 4611686018427387904", "1073741824"],
        ),
        ("cpuid = 100", "cpuid = -1", &["costs.cpuid -1"]),
        ("cpuid = 100", "cpuid = inf", &["costs.cpuid inf"]),
        ("plain = 0.0625", "", &["neither of plain and width"]),
        (
            "plain = 0.0625",
            "plain = 1\nwidth = 4",
            &["both of plain and width"],
        ),
        ("plain = 0.0625", "width = 0", &["costs.width 0", "1 to 16"]),
        ("plain = 0.0625", "width = 17", &["costs.width 17"]),
        (
            "[topology]",
            "[units]\ndivide = 0.1\n[topology]",
            &["units.divide 0.1", "0.0625"],
        ),
        ("[topology]", "[units]\nroot = 1\n[topology]", &["root"]),
        (
            "[topology]",
            "[topology]\nlast_level_cache_kib = 1048577",
            &["last_level_cache_kib 1048577", "1048576"],
        ),
        (
            "[topology]",
            "line_size = 128\n[topology]\nlast_level_cache_kib = 1",
            &["last_level_cache_kib 1", "16 lines"],
        ),
    ];
    for (old, new, parts) in wrong {
        assert!(PAIR.contains(old));
        let error = read(&PAIR.replacen(old, new, 1)).expect_err(new);
        for part in *parts {
            assert!(error.contains(part), "{new:?}: {error}");
        }
    }
}

#[test]
fn unknown_names_list_the_known_ones() {
    let error = load("cray").unwrap_err().to_string();
    assert!(
        names().all(|name| error.contains(name)) && error.contains("cray"),
        "{error}"
    );
    assert!(matches!(
        load("no/such/file.toml"),
        Err(MachineError::Read { .. })
    ));
    assert!(matches!(
        built_in("no/such/file.toml"),
        Err(MachineError::Unknown { .. })
    ));
}

#[test]
fn files_are_read_by_path() {
    let folder = std::env::temp_dir().join(format!("percolog-machine-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("pair.toml");
    std::fs::write(&path, PAIR).unwrap();
    let loaded = load(path.to_str().unwrap());
    std::fs::write(&path, "name = 3").unwrap();
    let wrong = load(path.to_str().unwrap());
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(loaded.unwrap().machine.name, "pair");
    let wrong = wrong.unwrap_err().to_string();
    assert!(wrong.contains("pair.toml, line 1"), "{wrong}");
}

#[test]
fn hops_are_shortest_paths() {
    let machine = built_in("opteron-48").unwrap();
    assert_eq!(machine.hops[0], [0, 1, 1, 2, 2, 2, 3, 3]);
    assert_eq!(machine.diameter(), 3);
    // Three links a chip, so three neighbours each, but for the four chips at the corners of the
    // ladder that have two.
    let neighbours: usize = machine
        .hops
        .iter()
        .flatten()
        .filter(|&&hops| hops == 1)
        .count();
    assert_eq!(neighbours, 2 * 10);
}

#[test]
fn every_built_in_machine_is_sound() {
    for name in names() {
        let description = load(name).unwrap();
        let machine = description.machine;
        assert_eq!(machine.name, name);
        assert_eq!(name.rsplit('-').next().unwrap(), machine.cores.to_string());
        assert_eq!(machine.cores, machine.chips * machine.cores_per_chip);
        assert_eq!(
            Machine::from_lines(&machine.to_lines()),
            Ok(machine.clone())
        );
        for cores in [1, 2, 48, 256, MAX_CORES] {
            let other = machine.clone().with_cores(cores).unwrap();
            assert_eq!(other.check(), Ok(()));
            assert_eq!(other.cores, cores);
            assert_eq!(Machine::from_lines(&other.to_lines()), Ok(other));
        }
    }
}

#[test]
fn published_numbers_are_in_the_files() {
    let opteron = built_in("opteron-48").unwrap();
    assert_eq!(
        (opteron.chips, opteron.cores_per_chip, opteron.megahertz),
        (8, 6, 2400)
    );
    assert_eq!(
        (
            opteron.transfer[0],
            opteron.transfer[1],
            *opteron.transfer.last().unwrap()
        ),
        (124, 250, 550)
    );
    // Two writers on one chip: 182 cycles a store.
    assert_eq!(
        2 * u64::from(opteron.transfer[0]) - opteron.costs.cpuid / TICKS_PER_CYCLE,
        182
    );
    let s85 = built_in("s85-24").unwrap();
    assert_eq!(
        (s85.coherence, s85.protocol),
        (Coherence::Bus, Protocol::Mesi)
    );
    assert_eq!((s85.line_size, s85.megahertz), (128, 600));
    assert_eq!(
        (
            built_in("xeon-40").unwrap().chips,
            built_in("xeon-120").unwrap().cores_per_chip
        ),
        (4, 15)
    );
}

#[test]
fn the_documented_example_is_a_machine() {
    let source = include_str!("../machine.rs");
    let example: String = source
        .lines()
        .skip_while(|line| *line != "//! ```toml")
        .skip(1)
        .take_while(|line| *line != "//! ```")
        .map(|line| format!("{}\n", line.trim_start_matches("//!").trim_start()))
        .collect();
    assert_eq!(read(&example).unwrap().machine.cores, 8);
}

#[test]
fn files_that_are_made_to_harm_are_refused_with_one_short_line() {
    let deep = "[".repeat(200_000);
    let long = "x".repeat(200_000);
    for (old, new) in [
        (
            "[\"here\"]",
            format!("{deep}\"here\"{}", "]".repeat(200_000)),
        ),
        ("[\"here\"]", deep),
        ("\"pair\"", format!("\"{long}\"")),
        ("\"moesi\"", format!("\"{long}\"")),
        ("megahertz = 2000", format!("megahertz = 2000\n{long} = 1")),
        (
            "megahertz = 2000",
            format!("megahertz = {}", "9".repeat(200_000)),
        ),
        ("plain = 0.0625", format!("plain = 1e{}", "9".repeat(1000))),
        (
            "[100, 200]",
            format!("[{}100, 50]", "100, ".repeat(100_000)),
        ),
        ("chips = 2", "chips = 1024".to_owned()),
    ] {
        let error = read(&PAIR.replacen(old, &new, 1)).expect_err("nobody has such a machine");
        assert!(error.chars().count() < 400, "{} signs", error.len());
    }
}

#[test]
fn links_that_are_repeated_cost_nothing() {
    // Each of a thousand chips would look at all of them, for each chip that it comes by.
    let mut links: Vec<String> = (0..1023)
        .map(|chip| format!("[{chip}, {}]", chip / 2))
        .collect();
    links[0] = "[0, 1023]".to_owned();
    let many = links.join(", ") + &", [0, 1]".repeat(100_000);
    let text = PAIR
        .replace(
            "chips = 2\ncores_per_chip = 4",
            "chips = 1024\ncores_per_chip = 1",
        )
        .replace("[0, 1]", &many)
        .replace("[100, 200]", &format!("[{}]", "100, ".repeat(30)))
        .replace("[150, 250]", &format!("[{}]", "150, ".repeat(30)));
    let machine = parse("test", &text).expect("it can be").machine;
    assert_eq!((machine.chips, machine.distance(0, 1023)), (1024, 1));
}

#[test]
fn a_file_without_an_end_is_refused() {
    let error = load("/dev/zero").expect_err("it never ends").to_string();
    assert!(error.contains("/dev/zero: is longer than 1 MiB"), "{error}");
}

fn schema() -> Value {
    serde_json::from_str(SCHEMA).expect("the schema is JSON")
}

#[test]
fn files_are_what_the_schema_says() {
    let validator = jsonschema::draft202012::new(&schema()).expect("the schema is one");
    let texts = BUILT_IN.map(|(_, text)| text.to_owned());
    for text in texts.into_iter().chain([PAIR.to_owned(), with_options()]) {
        assert!(read(&text).is_ok(), "{text}");
        let file: Value = toml::from_str(&text).expect("it is TOML");
        let wrong: Vec<String> = validator
            .iter_errors(&file)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(wrong.is_empty(), "{wrong:#?} in {text}");
    }
}

/// The paths of all fields that a schema names.
fn fields_of(schema: &Value, path: &str) -> Vec<String> {
    let Some(properties) = schema["properties"].as_object() else {
        return vec![path.to_owned()];
    };
    assert_eq!(schema["additionalProperties"], json!(false), "{path}");
    properties
        .iter()
        .flat_map(|(name, field)| fields_of(field, &format!("{path}/{name}")))
        .collect()
}

#[test]
fn the_schema_names_nothing_that_a_file_cannot_say() {
    let mut file: Value = toml::from_str(&with_options()).expect("it is TOML");
    // The two that exclude others are read in other tests.
    file["topology"]["links"] = json!([[0, 1]]);
    file["costs"]["plain"] = json!(1);
    for field in fields_of(&schema(), "") {
        let there = file.pointer(&field);
        assert!(
            there.is_some() || field == "/latency/probe",
            "{field} is in no file that is read"
        );
    }
}

#[test]
fn what_is_modelled_names_fields_that_there_are() {
    let fields = fields_of(&schema(), "");
    let plain = modelled(&read(PAIR).unwrap().machine);
    let whole = modelled(&read(&with_options()).unwrap().machine);
    for (part, with) in plain.iter().zip(&whole) {
        let Some(field) = part.field else {
            assert!(!part.is_modelled && !with.is_modelled, "{part:?}");
            continue;
        };
        let path = format!("/{}", field.replace('.', "/"));
        assert!(
            fields.iter().any(|field| field.starts_with(&path)),
            "{path}"
        );
        // What the first leaves out the second has.
        assert!(with.is_modelled, "{with:?}");
    }
    assert!(plain.iter().filter(|part| part.is_modelled).count() < 5);
}
