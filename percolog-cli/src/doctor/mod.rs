//! `percolog doctor`: how slots, time and barriers are found on this machine, and whether that can be trusted.
//!
//! A *problem* (a clock that cannot order updates, an environment variable without effect) makes the command exit
//! with 1. A *fallback* is slower and correct: it is named, and no reason to fail.

mod machine;

use percolog::cpu::{self, SlotSource, barrier, clock};
use serde::Serialize;

use percolog_cli::failure::Failure;
use percolog_cli::format::{left, number, plural, wrap};
use percolog_cli::output::Output;

/// Hand-offs for each pair of processors. One is not enough: the smallest delta is what tells skew from delay.
const ROUNDS: u32 = 1000;

/// Everything the doctor looked at.
#[derive(Debug, Serialize)]
struct Diagnosis {
    healthy: bool,
    slots: Slots,
    topology: Topology,
    rseq: Rseq,
    clock: Clock,
    skew: Option<Skew>,
    barrier: Barrier,
    variables: Vec<Variable>,
    fallbacks: Vec<String>,
    problems: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Slots {
    count: usize,
    source: String,
    current: usize,
    line_size: usize,
}

#[derive(Debug, Serialize)]
struct Topology {
    allowed_cpus: Option<Vec<usize>>,
    online_cpus: Option<String>,
    cgroup_quota_cpus: Option<f64>,
    numa_nodes: Option<usize>,
}

#[derive(Debug, Serialize)]
struct Rseq {
    kernel_feature_size: Option<u64>,
    kernel_concurrency_ids: bool,
    used: bool,
}

#[derive(Debug, Serialize)]
struct Clock {
    source: String,
    why: &'static str,
    sick: bool,
    violations: u64,
    kernel_source: Option<String>,
    ticks_per_second: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Skew {
    causal: bool,
    worst_ticks: u64,
    pairs: Vec<Pair>,
}

#[derive(Debug, Serialize)]
struct Pair {
    from: usize,
    to: usize,
    forth_ticks: i64,
    back_ticks: i64,
    skew_ticks: i64,
    causal: bool,
}

#[derive(Debug, Serialize)]
struct Barrier {
    mode: String,
    why: &'static str,
}

#[derive(Debug, Serialize)]
struct Variable {
    name: &'static str,
    value: String,
    valid: bool,
}

/// The variables of the environment that change what percolog does.
const VARIABLES: [&str; 3] = ["PERCOLOG_CORES", "PERCOLOG_SLOTS", "PERCOLOG_BARRIER"];

/// Prints the diagnosis, and fails if there is a problem.
pub(crate) fn run(output: &mut Output) -> Result<(), Failure> {
    let diagnosis = diagnose();
    if output.is_json() {
        output.data(&diagnosis)?;
    } else {
        let text = show(&diagnosis, output);
        output.write(&text)?;
    }
    if diagnosis.healthy {
        Ok(())
    } else {
        Err(Failure::Unhealthy)
    }
}

fn diagnose() -> Diagnosis {
    let mut problems = Vec::new();
    let mut fallbacks = Vec::new();

    let invalid = cpu::invalid_variables();
    problems.extend(invalid.iter().map(ToString::to_string));
    let variables: Vec<Variable> = VARIABLES
        .into_iter()
        .filter_map(|name| {
            let value = std::env::var_os(name)?.to_string_lossy().into_owned();
            let valid = invalid.iter().all(|variable| variable.name != name);
            Some(Variable { name, value, valid })
        })
        .collect();

    let source = cpu::slot_source();
    let feature_size = machine::rseq_feature_size();
    let rseq = Rseq {
        kernel_feature_size: feature_size,
        kernel_concurrency_ids: feature_size
            .is_some_and(|size| size >= machine::CONCURRENCY_ID_END),
        used: matches!(source, SlotSource::ConcurrencyId | SlotSource::CpuId),
    };
    let chosen = variables
        .iter()
        .any(|variable| variable.name == "PERCOLOG_SLOTS" && variable.valid);
    match source {
        SlotSource::Thread if chosen => fallbacks.push(
            "PERCOLOG_SLOTS=thread: each thread has its own slot, so a read visits one slot a thread, not one a CPU"
                .to_owned(),
        ),
        SlotSource::Thread => fallbacks.push(
            "the C library keeps no rseq area here: each thread has its own slot, so a read visits one slot a thread, \
             not one a CPU"
                .to_owned(),
        ),
        SlotSource::CpuId => fallbacks.push(format!(
            "{}: slots are numbered as processors, so a process of few threads on a large machine dirties more slots \
             than it has threads",
            if rseq.kernel_concurrency_ids {
                "the kernel keeps compact concurrency ids, but this C library does not show them"
            } else {
                "the kernel keeps no compact concurrency ids"
            }
        )),
        _ => {}
    }

    let measured = clock::verify(ROUNDS);
    // After the measurement: it would be the one to find a sick clock.
    let health = clock::health();
    if health.sick {
        problems.push(format!(
            "the clock is sick: {} ({})",
            health.why,
            plural(health.violations, "violation")
        ));
    } else if health.source == clock::ClockSource::SharedCounter {
        fallbacks.push(format!(
            "stamps come from one shared counter, since {}: each ordered update moves a cache line",
            health.why
        ));
    }
    let mut ticks_per_second = None;
    let skew = match measured {
        Ok(skew) => {
            // A shared counter ticks when it is used; only a processor's counter has a frequency.
            if health.source != clock::ClockSource::SharedCounter {
                ticks_per_second = Some(skew.ticks_per_second);
            }
            for pair in skew.pairs.iter().filter(|pair| !pair.is_causal()) {
                problems.push(format!(
                    "the clocks of CPUs {} and {} differ by about {} ticks, more than a hand-off takes: stamps cannot \
                     order updates",
                    pair.from,
                    pair.to,
                    pair.skew()
                ));
            }
            Some(Skew {
                causal: skew.is_causal(),
                worst_ticks: skew.worst(),
                pairs: skew
                    .pairs
                    .iter()
                    .map(|pair| Pair {
                        from: pair.from,
                        to: pair.to,
                        forth_ticks: pair.forth,
                        back_ticks: pair.back,
                        skew_ticks: pair.skew(),
                        causal: pair.is_causal(),
                    })
                    .collect(),
            })
        }
        Err(error) => {
            fallbacks.push(format!(
                "the clocks of the processors were not compared: {error}"
            ));
            None
        }
    };

    if barrier::mode() == barrier::BarrierMode::Fence {
        fallbacks.push(format!(
            "barriers are fences, since {}: each outermost parallel section executes one",
            barrier::why()
        ));
    }

    Diagnosis {
        healthy: problems.is_empty(),
        slots: Slots {
            count: cpu::count(),
            source: source.to_string(),
            current: cpu::current().index(),
            line_size: cpu::LINE_SIZE,
        },
        topology: Topology {
            allowed_cpus: cpu::allowed_cpus().ok(),
            online_cpus: machine::line_of("/sys/devices/system/cpu/online"),
            cgroup_quota_cpus: machine::cgroup_quota(),
            numa_nodes: machine::numa_nodes(),
        },
        rseq,
        clock: Clock {
            source: health.source.to_string(),
            why: health.why,
            sick: health.sick,
            violations: health.violations,
            kernel_source: machine::line_of(
                "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            ),
            ticks_per_second,
        },
        skew,
        barrier: Barrier {
            mode: barrier::mode().to_string(),
            why: barrier::why(),
        },
        variables,
        fallbacks,
        problems,
    }
}

/// Lines of "what: value" under a heading.
struct Sheet<'a> {
    text: String,
    output: &'a Output,
}

impl Sheet<'_> {
    fn heading(&mut self, heading: &str) {
        self.text
            .push_str(&format!("{}\n", self.output.strong(heading)));
    }

    fn fact(&mut self, what: &str, value: &str) {
        let indent = " ".repeat(24);
        let wrapped = wrap(value, &indent);
        let value = wrapped.trim_start();
        self.text
            .push_str(&format!("  {}{value}\n", left(what, 22)));
    }
}

fn show(diagnosis: &Diagnosis, output: &Output) -> String {
    let mut sheet = Sheet {
        text: String::new(),
        output,
    };
    let unknown = || "unknown".to_owned();

    sheet.heading("Slots");
    sheet.fact("count", &diagnosis.slots.count.to_string());
    sheet.fact("numbered by", &diagnosis.slots.source);
    sheet.fact("this thread's", &diagnosis.slots.current.to_string());
    sheet.fact(
        "kept apart by",
        &format!("{} bytes", diagnosis.slots.line_size),
    );
    for variable in &diagnosis.variables {
        let verdict = if variable.valid {
            ""
        } else {
            " (no effect: not a valid value)"
        };
        sheet.fact(variable.name, &format!("{}{verdict}", variable.value));
    }

    sheet.heading("Topology");
    let topology = &diagnosis.topology;
    sheet.fact(
        "affinity",
        &topology.allowed_cpus.as_ref().map_or_else(unknown, |cpus| {
            format!(
                "{} of CPUs {}",
                plural(cpus.len() as u64, "CPU"),
                machine::ranges(cpus)
            )
        }),
    );
    sheet.fact(
        "online",
        &topology
            .online_cpus
            .as_ref()
            .map_or_else(unknown, |online| format!("CPUs {online}")),
    );
    sheet.fact(
        "cgroup quota",
        &topology.cgroup_quota_cpus.map_or_else(
            || "none".to_owned(),
            |cpus| format!("{} CPUs", number(cpus)),
        ),
    );
    sheet.fact(
        "NUMA nodes",
        &topology
            .numa_nodes
            .map_or_else(unknown, |nodes| nodes.to_string()),
    );

    sheet.heading("rseq");
    let rseq = &diagnosis.rseq;
    sheet.fact(
        "kernel",
        &rseq.kernel_feature_size.map_or_else(
            || "says nothing of its features".to_owned(),
            |size| {
                let ids = if rseq.kernel_concurrency_ids {
                    "with concurrency ids (mm_cid)"
                } else {
                    "without concurrency ids (mm_cid)"
                };
                format!("feature size {size}, {ids}")
            },
        ),
    );
    sheet.fact(
        "used here",
        if rseq.used {
            "yes, the C library's area is read"
        } else {
            "no"
        },
    );

    sheet.heading("Clock");
    let clock = &diagnosis.clock;
    sheet.fact("source", &clock.source);
    sheet.fact("because", clock.why);
    sheet.fact(
        "kernel keeps time by",
        &clock.kernel_source.clone().unwrap_or_else(unknown),
    );
    if let Some(ticks) = clock.ticks_per_second {
        sheet.fact("frequency", &format!("{} MHz", number(ticks / 1e6)));
    }
    sheet.fact("violations met", &clock.violations.to_string());
    show_skew(&mut sheet, diagnosis);

    sheet.heading("Barriers");
    sheet.fact("mode", &diagnosis.barrier.mode);
    sheet.fact("because", diagnosis.barrier.why);

    sheet.text.push('\n');
    for fallback in &diagnosis.fallbacks {
        let line = wrap(&format!("fallback: {fallback}"), "  ");
        sheet
            .text
            .push_str(&format!("{}\n", output.warning(line.trim_start())));
    }
    for problem in &diagnosis.problems {
        let line = wrap(&format!("problem: {problem}"), "  ");
        sheet
            .text
            .push_str(&format!("{}\n", output.bad(line.trim_start())));
    }
    let verdict = if !diagnosis.healthy {
        output.bad("Something is wrong; see above.")
    } else if diagnosis.fallbacks.is_empty() {
        output.good("All is well: no fallback is in use.")
    } else {
        output.good("All is well; fallbacks are slower, and correct.")
    };
    sheet.text.push_str(&format!("{verdict}\n"));
    sheet.text
}

fn show_skew(sheet: &mut Sheet<'_>, diagnosis: &Diagnosis) {
    let Some(skew) = &diagnosis.skew else {
        sheet.fact("skew", "not measured");
        return;
    };
    if skew.pairs.is_empty() {
        sheet.fact("skew", "one CPU, nothing to compare");
        return;
    }
    let nanoseconds = diagnosis
        .clock
        .ticks_per_second
        .map(|ticks| format!(" ({} ns)", number(skew.worst_ticks as f64 * 1e9 / ticks)))
        .unwrap_or_default();
    sheet.fact(
        "skew",
        &format!(
            "at most {}{nanoseconds} over {}; every hand-off {}",
            plural(skew.worst_ticks, "tick"),
            plural(skew.pairs.len() as u64, "pair"),
            if skew.causal {
                "arrived after it was sent"
            } else {
                "should arrive after it was sent, and some did not"
            }
        ),
    );
    // A large machine has thousands of pairs: the worst few tell enough, `--json` has all.
    let mut worst: Vec<&Pair> = skew.pairs.iter().collect();
    worst.sort_by_key(|pair| (pair.causal, std::cmp::Reverse(pair.skew_ticks.abs())));
    for pair in worst.into_iter().take(4) {
        sheet.fact(
            &format!("  CPU {} and {}", pair.from, pair.to),
            &format!(
                "{} ticks there, {} back: skew {}",
                pair.forth_ticks, pair.back_ticks, pair.skew_ticks
            ),
        );
    }
}
