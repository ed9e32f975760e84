//! Closed forms: what pencil and paper say about the workloads, from a handful of constants.
//!
//! They stand in the validation table between what was published and what is simulated, so that a miss can be told
//! apart: a simulator that disagrees with a formula fed with its own constants is wrong, one that agrees with it and
//! not with the paper describes another machine.

/// Cycles of one contended store: `writers` cores store to one line, over and over.
///
/// Each core is away from the line for `think` cycles between two stores. While the line's home is never idle, a round
/// of all writers takes `writers × occupancy`, of which a core waits all but its `think`. Otherwise nobody queues, and a
/// store takes the `latency` of a transfer.
#[must_use]
pub fn contended_store(writers: u32, latency: f64, occupancy: f64, think: f64) -> f64 {
    latency.max(f64::from(writers) * occupancy - think)
}

/// Amdahl's law: the speedup on `cores` of work of which the share `serial` cannot be divided.
#[must_use]
pub fn amdahl(cores: u32, serial: f64) -> f64 {
    1.0 / (serial + (1.0 - serial) / f64::from(cores))
}

/// A closed queue: customers who think, queue at one server after the other, are served by each, and think again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClosedQueue {
    /// Cycles of a round in which a customer neither queues nor is served.
    pub think: f64,
    /// Cycles that a server is busy with one customer.
    pub service: f64,
    /// Servers that a customer visits in a round.
    pub servers: u32,
}

impl ClosedQueue {
    /// Customers served per cycle when there are `customers`, by exact mean-value analysis of exponential times.
    #[must_use]
    pub fn throughput(self, customers: u32) -> f64 {
        let mut queued = 0.0;
        let mut throughput = 0.0;
        for population in 1..=customers {
            let response = self.service * (1.0 + queued);
            throughput = f64::from(population) / (self.think + f64::from(self.servers) * response);
            queued = throughput * response;
        }
        throughput
    }

    /// The share of its time that a customer queues or is served.
    #[must_use]
    pub fn waiting(self, customers: u32) -> f64 {
        1.0 - self.throughput(customers) * self.think / f64::from(customers.max(1))
    }

    /// Cycles from one service of a customer to its next.
    #[must_use]
    pub fn round(self, customers: u32) -> f64 {
        f64::from(customers) / self.throughput(customers)
    }

    /// The queue with `servers` of this `service` in which `customers` wait for `share` of their time: how a paper that says how
    /// long its cores waited tells how long they worked.
    ///
    /// `None` unless the share lies between what one customer and what infinitely fast customers wait.
    #[must_use]
    pub fn of_waiting(share: f64, customers: u32, service: f64, servers: u32) -> Option<Self> {
        if !(share > 0.0 && share < 1.0 && service > 0.0 && customers > 0 && servers > 0) {
            return None;
        }
        // Waiting falls as thinking grows: halve the interval until it is a millionth of the service.
        let waits_longer = |think: f64| {
            Self {
                think,
                service,
                servers,
            }
            .waiting(customers)
                > share
        };
        let mut low = 0.0;
        let mut high = service;
        while waits_longer(high) {
            low = high;
            high *= 2.0;
        }
        while high - low > service * 1e-6 {
            let middle = f64::midpoint(low, high);
            if waits_longer(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(Self {
            think: high,
            service,
            servers,
        })
    }
}

/// The two things that §A.4 of the thesis says about one hand-over of a ticket lock.
///
/// Its text derives a service time of `s + ck/2` with `k` cores waiting. Its equation A.1 multiplies terms `s + ic`: no
/// half, and counted from 1 instead of 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// `s + ck/2`, as derived in the text.
    Text,
    /// `s + ck`, as printed in equation A.1.
    Printed,
}

/// The Markov model of a ticket lock (§A.4 of the thesis).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TicketLock {
    /// `a`: cycles from a core's release to its next attempt.
    pub between: f64,
    /// `s`: cycles of the serial section.
    pub section: f64,
    /// `c`: cycles in which the home answers one request for the lock's line.
    pub response: f64,
}

impl TicketLock {
    /// The speedup of `cores` cores: those that neither hold the lock nor wait for it.
    #[must_use]
    pub fn speedup(self, cores: u32, reading: Reading) -> f64 {
        // Logarithms of P(k) / P(0): the factors of a large machine leave the range of a float.
        let mut weights = vec![0.0];
        let mut weight = 0.0;
        for waiting in 0..cores {
            let arrival = f64::from(cores - waiting) / self.between;
            let service = match reading {
                Reading::Text => self.section + self.response * f64::from(waiting) / 2.0,
                Reading::Printed => self.section + self.response * f64::from(waiting + 1),
            };
            weight += (arrival * service).ln();
            weights.push(weight);
        }
        let largest = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut total = 0.0;
        let mut in_lock = 0.0;
        for (state, weight) in (0_u32..).zip(weights) {
            let share = (weight - largest).exp();
            total += share;
            in_lock += f64::from(state) * share;
        }
        f64::from(cores) - in_lock / total
    }

    /// The number of cores, up to `most`, with the highest speedup; `None` if it is `most` itself: no collapse.
    #[must_use]
    pub fn peak(self, most: u32, reading: Reading) -> Option<u32> {
        let best = (1..=most).max_by(|one, other| {
            self.speedup(*one, reading)
                .total_cmp(&self.speedup(*other, reading))
        })?;
        (best < most).then_some(best)
    }

    /// The least number of cores that, once they all wait, keep waiting: the model without its chance.
    ///
    /// With `k` cores in the queue and a hand-over that costs `h` cycles for each of them, one core is served every
    /// `s + hk`, and `a / (s + hk)` cores are away. Such a queue needs `k + a / (s + hk)` cores, which is least at
    /// `s + hk = √(ah)`, where it is `2√(a/h) − s/h`. `h` is `c/2` or `c`, by the reading. `None` if the section is so
    /// long that hand-overs never matter (`s ≥ √(ah)`).
    #[must_use]
    pub fn trap(self, reading: Reading) -> Option<f64> {
        let handover = match reading {
            Reading::Text => self.response / 2.0,
            Reading::Printed => self.response,
        };
        if self.section >= (self.between * handover).sqrt() {
            return None;
        }
        Some(2.0 * (self.between / handover).sqrt() - self.section / handover)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(one: f64, other: f64) {
        assert!((one - other).abs() < 1e-4, "{one} is not {other}");
    }

    #[test]
    fn a_store_waits_for_a_transfer_or_for_all_others() {
        close(contended_store(2, 182.0, 100.0, 50.0), 182.0);
        // 48 × 174 − 170.
        close(contended_store(48, 182.0, 174.0, 170.0), 8182.0);
    }

    #[test]
    fn two_percent_cannot_be_divided() {
        close(amdahl(1, 0.02), 1.0);
        // 1 / (0.02 + 0.98 / 49).
        close(amdahl(49, 0.02), 25.0);
    }

    #[test]
    fn mean_values_by_hand() {
        // Service 1, think 2. One: R = 1, X = 1/3, Q = 1/3. Two: R = 4/3, X = 0.6, Q = 0.8. Three: R = 1.8, X = 3/3.8.
        let queue = ClosedQueue {
            think: 2.0,
            service: 1.0,
            servers: 1,
        };
        close(queue.throughput(1), 1.0 / 3.0);
        close(queue.throughput(2), 0.6);
        close(queue.throughput(3), 3.0 / 3.8);
        close(queue.waiting(3), 1.8 / 3.8);
        close(queue.round(3), 3.8);
        // So many that the server is never idle.
        close(queue.throughput(200), 1.0);
        // Two servers. One: R = 1, X = 1/4, Q = 1/4 at each. Two: R = 1.25, X = 2/4.5.
        let queue = ClosedQueue {
            servers: 2,
            ..queue
        };
        close(queue.throughput(2), 2.0 / 4.5);
    }

    #[test]
    fn a_share_of_waiting_tells_the_thinking() {
        let queue = ClosedQueue::of_waiting(1.8 / 3.8, 3, 1.0, 1).expect("a share between 0 and 1");
        close(queue.think, 2.0);
        for nonsense in [0.0, 1.0, f64::NAN] {
            assert_eq!(ClosedQueue::of_waiting(nonsense, 3, 1.0, 1), None);
        }
    }

    #[test]
    fn both_readings_by_hand() {
        let lock = TicketLock {
            between: 10.0,
            section: 1.0,
            response: 2.0,
        };
        // One core: it is in the lock for s of a + s.
        close(lock.speedup(1, Reading::Text), 10.0 / 11.0);
        // Two: P = 1, 2·1/10, 0.2·(1 + 1)/10, so w = (0.2 + 2·0.04) / 1.24.
        close(lock.speedup(2, Reading::Text), 2.0 - 0.28 / 1.24);
        // Two, printed: P = 1, 2·(1 + 2)/10, 0.6·(1 + 4)/10, so w = (0.6 + 2·0.3) / 1.9.
        close(lock.speedup(2, Reading::Printed), 2.0 - 1.2 / 1.9);
    }

    #[test]
    fn no_machine_is_too_large_for_the_model() {
        let lock = TicketLock {
            between: 19_600.0,
            section: 400.0,
            response: 400.0,
        };
        let speedup = lock.speedup(4096, Reading::Printed);
        assert!(speedup > 0.0 && speedup < 1.0, "{speedup}");
    }

    #[test]
    fn the_published_collapses_are_traps_of_one_constant() {
        // 400 cycles for each waiting core: 2·7 − 1, 2·14 − 4, and a section longer than √(ah) = 22,400.
        for (section, trap) in [(400.0, Some(13.0)), (1600.0, Some(24.0)), (25_600.0, None)] {
            let lock = TicketLock {
                between: 49.0 * section,
                section,
                response: 400.0,
            };
            assert_eq!(lock.trap(Reading::Printed), trap);
            let halved = TicketLock {
                response: 800.0,
                ..lock
            };
            assert_eq!(halved.trap(Reading::Text), trap);
        }
    }

    #[test]
    fn short_sections_collapse_and_long_ones_do_not() {
        let lock = |section: f64| TicketLock {
            between: 49.0 * section,
            section,
            response: 400.0,
        };
        for reading in [Reading::Text, Reading::Printed] {
            let short = lock(400.0).peak(48, reading).expect("collapses");
            let longer = lock(1600.0).peak(48, reading).expect("collapses");
            assert!(short < longer, "{short} {longer}");
            assert_eq!(lock(25_600.0).peak(48, reading), None);
        }
        // Fewer than ten: what the thesis says of its Figure A-6.
        let peak = lock(400.0).peak(48, Reading::Printed).expect("collapses");
        assert!(lock(400.0).speedup(peak, Reading::Printed) < 10.0);
    }
}
