//! What a service is like at a time, and who asks it for how much.

/// A service and its clients, as long as nothing changes. Times in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    /// How many requests it works on at once.
    pub(crate) servers: f64,
    /// How long it works on one, on average.
    pub(crate) service_ms: f64,
    /// What comes on top of that for everybody: the network, a slow disk.
    pub(crate) delay_ms: f64,
    /// How many wait in its own queue; more are dropped at once.
    pub(crate) queue: usize,
    /// The share of requests that it drops whatever the load.
    pub(crate) fails: f64,
    /// Requests that come by themselves, in a second.
    pub(crate) rate: f64,
    /// So many times as much in the first tenth of every five seconds.
    pub(crate) burst: f64,
    /// How much the work of requests differs.
    pub(crate) spread: Spread,
    /// How long it stands still at the end of every ten seconds.
    pub(crate) pause_ms: f64,
}

/// How much the work of requests differs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Spread {
    /// Half of it is the same for all, the other half exponentially distributed.
    Narrow,
    /// Exponentially distributed.
    Wide,
    /// Lognormally distributed, with a sigma of 1: one in thirty is four times the mean.
    Heavy,
    /// Two kinds, each spread narrowly.
    Kinds { short_ms: f64, long_ms: f64, long_share: f64 },
}

/// How often a service stands still that does.
const PAUSES_EVERY_NS: u64 = 10_000_000_000;

impl World {
    /// A service of 8 × 20 ms, asked for half as much again as it bears.
    pub(crate) const fn overloaded() -> World {
        World {
            servers: 8.0,
            service_ms: 20.0,
            delay_ms: 0.0,
            queue: 100,
            fails: 0.0,
            rate: 600.0,
            burst: 1.0,
            spread: Spread::Narrow,
            pause_ms: 0.0,
        }
    }

    /// The same, with two kinds of requests.
    pub(crate) const fn kinds(self, short_ms: f64, long_ms: f64, long_share: f64) -> World {
        let service_ms = short_ms + (long_ms - short_ms) * long_share;
        World { service_ms, spread: Spread::Kinds { short_ms, long_ms, long_share }, ..self }
    }

    /// When work that is begun now is done.
    pub(crate) fn done_ns(&self, now_ns: u64, work_ns: u64) -> u64 {
        let pause_ns = (self.pause_ms * 1e6) as u64;
        let (mut at_ns, mut left_ns) = (now_ns, work_ns);
        loop {
            let next_ns = (at_ns / PAUSES_EVERY_NS + 1) * PAUSES_EVERY_NS;
            let works_ns = (next_ns - pause_ns).saturating_sub(at_ns);
            if left_ns <= works_ns {
                return at_ns + left_ns;
            }
            (at_ns, left_ns) = (next_ns, left_ns - works_ns);
        }
    }

    /// How long a request takes with nobody else there, on average.
    pub(crate) fn unloaded_ms(&self) -> f64 {
        self.service_ms + self.delay_ms
    }

    /// How many in flight keep it exactly busy.
    pub(crate) fn fill(&self) -> f64 {
        self.servers * self.unloaded_ms() / self.service_ms
    }

    fn between(self, to: World, share: f64) -> World {
        let mix = |a: f64, b: f64| a + (b - a) * share;
        World {
            servers: mix(self.servers, to.servers),
            service_ms: mix(self.service_ms, to.service_ms),
            delay_ms: mix(self.delay_ms, to.delay_ms),
            fails: mix(self.fails, to.fails),
            rate: mix(self.rate, to.rate),
            ..to
        }
    }
}

/// Who comes back after every answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd {
    pub(crate) clients: u32,
    /// How long one thinks before it asks again, answered or refused.
    pub(crate) thinks_ms: f64,
}

/// In which order a service works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// First come, first served.
    Fifo,
    /// All at once, each more slowly the more there are.
    Shared,
}

/// A story about a service.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) order: Order,
    pub(crate) crowd: Option<Crowd>,
    /// Until which second the world is like what, and whether it gets there slowly.
    pub(crate) chapters: Vec<(f64, World, Pace)>,
}

/// How a chapter begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    Suddenly,
    Slowly,
}

impl Scenario {
    pub(crate) fn new(name: &'static str) -> Scenario {
        Scenario { name, order: Order::Fifo, crowd: None, chapters: Vec::new() }
    }

    /// From now on, for so many seconds.
    pub(crate) fn then(mut self, seconds: f64, world: World) -> Scenario {
        self.chapters.push((self.seconds() + seconds, world, Pace::Suddenly));
        self
    }

    /// Within so many seconds.
    pub(crate) fn slowly(mut self, seconds: f64, world: World) -> Scenario {
        self.chapters.push((self.seconds() + seconds, world, Pace::Slowly));
        self
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.chapters.last().map_or(0.0, |chapter| chapter.0)
    }

    /// The world at a second of the story.
    pub(crate) fn at(&self, second: f64) -> World {
        let now = self.chapters.iter().position(|chapter| second < chapter.0);
        let now = now.unwrap_or(self.chapters.len() - 1);
        let (until, world, pace) = self.chapters[now];
        match (pace, now) {
            (Pace::Slowly, 1..) => {
                let (since, before, _) = self.chapters[now - 1];
                before.between(world, ((second - since) / (until - since)).min(1.0))
            }
            _ => world,
        }
    }

    /// When chapters begin, the first included, and when they end.
    pub(crate) fn spans(&self) -> Vec<(f64, f64)> {
        let begins = std::iter::once(0.0).chain(self.chapters.iter().map(|chapter| chapter.0));
        begins.zip(self.chapters.iter().map(|chapter| chapter.0)).collect()
    }
}
