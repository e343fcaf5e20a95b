//! Random numbers, and synthetic demand of the regimes that circuits are judged on.

#![allow(dead_code, reason = "each user takes a part")]

/// *mixtral*: rows alike, columns as skewed as on the public matrix; *pair* and *sparse*: rows of
/// Dirichlet 1 and 0.15; *uniform*: every pair between nothing and twice the mean.
pub const KINDS: [&str; 4] = ["mixtral", "pair", "sparse", "uniform"];

/// Marsaglia's xorshift; good enough for test data.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// The numbers below `count` in random order.
    pub fn shuffled(&mut self, count: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..count).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, (self.next() % (i as u64 + 1)) as usize);
        }
        order
    }

    fn normal(&mut self) -> f64 {
        let (u, v) = (self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// Marsaglia and Tsang (2000), with the power of a uniform for shapes below 1.
    fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            return self.gamma(shape + 1.0) * self.uniform().powf(1.0 / shape);
        }
        let d = shape - 1.0 / 3.0;
        loop {
            let x = self.normal();
            let v = (1.0 + x / (9.0 * d).sqrt()).powi(3);
            if v > 0.0 && self.uniform().ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return d * v;
            }
        }
    }
}

/// Bytes from server to server; every row adds up to 400 MB, its diagonal included.
pub fn demand(kind: &str, n: usize, random: &mut Random) -> Vec<u64> {
    let mut shares = weights(kind, n, 0.774, random);
    shares.chunks_exact_mut(n).for_each(normalize);
    shares.iter().map(|share| (share * 4e8) as u64).collect()
}

/// What every server sends to each, in no unit; `skew` is the deviation of the logarithm of
/// mixtral's columns.
pub fn weights(kind: &str, n: usize, skew: f64, random: &mut Random) -> Vec<f64> {
    let popularity: Vec<f64> = (0..n).map(|_| (skew * random.normal()).exp()).collect();
    let sum: f64 = popularity.iter().sum();
    let cell = |index: usize| match kind {
        "mixtral" => random.gamma(340.0 * popularity[index % n] / sum * n as f64 / 8.0),
        "pair" => random.gamma(1.0),
        "sparse" => random.gamma(0.15),
        _ => random.uniform(),
    };
    (0..n * n).map(cell).collect()
}

/// Makes a row add up to 1.
pub fn normalize(row: &mut [f64]) {
    let total: f64 = row.iter().sum();
    for share in row {
        *share /= total;
    }
}
