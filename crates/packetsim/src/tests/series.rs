//! Series over time against totals, link rates and finer series, and one by hand.

use super::flow;
use super::scenarios::{play, scenario};
use crate::presets::{fat_tree, star};
use crate::{
    Carrier, Failure, FlowSpec, PacketFlowId, PacketLinkId, PacketScenario, Report, Series,
    SeriesRow, SeriesSampling, TransportName,
};
use lightloom_model::{Bytes, Duration, Rate, Time};
use std::collections::BTreeMap;

const FAST: Rate = Rate(100_000_000_000);
const US: u64 = 1_000_000;
/// A full packet at 100 Gb/s, in ps.
const PACKET: u64 = 4160 * 80;

/// Flows between 16 hosts that meet in many places, the later half begun later.
fn crossing() -> Vec<FlowSpec> {
    let pairs = (0..16).flat_map(|host| [(host, (host + 5) % 16), (host, (host * 7 + 3) % 16)]);
    let flows = pairs.filter(|(a, b)| a != b).map(|ends| flow(ends, 100_001));
    flows
        .enumerate()
        .map(|(place, spec)| FlowSpec { start: Time(place as u64 / 16 * 7 * US), ..spec })
        .collect()
}

fn tree() -> crate::Topology {
    fat_tree(16, 4, FAST, Duration(US)).unwrap()
}

fn keep(period: u64, max_rows: usize) -> SeriesSampling {
    SeriesSampling { period: Duration(period), max_rows }
}

/// Bytes and longest queue of each link and flow over all periods.
fn totals(series: &Series) -> BTreeMap<Carrier, (u64, u64)> {
    let mut totals = BTreeMap::new();
    for row in &series.rows {
        let (bytes, peak): &mut (u64, u64) = totals.entry(row.of).or_default();
        *bytes += row.bytes.0;
        *peak = row.peak_queue.0.max(*peak);
    }
    totals
}

/// What holds of the series of any run.
pub(super) fn check_laws(scenario: &PacketScenario, report: &Report) {
    let series = report.series.as_ref().unwrap();
    let keys: Vec<_> = series.rows.iter().map(|row| (row.period, row.of)).collect();
    assert!(keys.is_sorted_by(|a, b| a < b), "in order, each once");
    assert!(series.rows.iter().all(|row| row.bytes.0 > 0 || row.peak_queue.0 > 0));
    let last = keys.last().map_or(0, |key| key.0);
    let limit = scenario.series.unwrap().max_rows;
    assert!(series.rows.len() <= limit || last == 0, "{} rows", series.rows.len());
    assert!(u64::from(last) * series.period.0 <= report.end.0, "no period after the end");
    let totals = totals(series);
    let total = |of| totals.get(&of).copied().unwrap_or_default();
    let packet = u64::from(scenario.config.packet_bytes().max(scenario.config.control_bytes));
    for (place, link) in scenario.topology.links().iter().enumerate() {
        let (bytes, peak) = total(Carrier::Link(PacketLinkId(place as u32)));
        let on_wire = report.links[place].sent.0 - bytes;
        let held = u128::from(link.rate.0) * u128::from(link.delay.0) / 8_000_000_000_000;
        assert!(u128::from(on_wire) <= held + u128::from(packet), "{on_wire} on link {place}");
        assert_eq!(peak, report.links[place].peak_queue.0, "the longest queue of link {place}");
    }
    let unfinished = report.unfinished.iter().zip(&report.unfinished_received);
    let unfinished: BTreeMap<_, _> = unfinished.collect();
    for (flow, spec) in (0..).map(PacketFlowId).zip(&scenario.flows) {
        let received = unfinished.get(&flow).map_or(spec.size, |bytes| **bytes);
        assert_eq!(total(Carrier::Flow(flow)), (received.0, 0), "flow {}", flow.0);
    }
    if scenario.failures.is_empty() {
        series.rows.iter().for_each(|row| check_rate(scenario, series, row));
    }
}

/// No link carries more than its rate allows; rounding may move a byte.
fn check_rate(scenario: &PacketScenario, series: &Series, row: &SeriesRow) {
    let Carrier::Link(link) = row.of else { return };
    let rate = scenario.topology.links()[link.0 as usize].rate;
    let possible = u128::from(rate.0) * u128::from(series.period.0) / 8_000_000_000_000;
    assert!(u128::from(row.bytes.0) <= possible + 1, "{row:?}: {possible} B possible");
}

#[test]
fn series_of_all_transports_add_up_and_change_nothing() {
    for name in TransportName::ALL.iter().map(|name| name.name()) {
        for until in [Time(u64::MAX), Time(9 * US + 12_345)] {
            let mut scenario = PacketScenario { until, ..scenario(name, tree(), crossing()) };
            let alone = play(&scenario).unwrap();
            for (period, max_rows) in [(77_777, 700), (1_000_000, 1_000_000), (1_000_000_000, 9)] {
                scenario.series = Some(keep(period, max_rows));
                let watched = play(&scenario).unwrap();
                assert_eq!((alone.0.hash, &alone.1), (watched.0.hash, &watched.1), "{name}");
                assert_eq!(alone.0.links, watched.0.links, "{name}");
                check_laws(&scenario, &watched.0);
            }
        }
    }
}

#[test]
fn merged_periods_are_the_sums_of_finer_ones() {
    let mut scenario = scenario("roce", tree(), crossing());
    let mut series = |max_rows| {
        scenario.series = Some(keep(50_000, max_rows));
        play(&scenario).unwrap().0.series.unwrap()
    };
    let fine = series(1_000_000);
    assert!(fine.period == Duration(50_000) && fine.rows.len() > 10_000);
    for max_rows in [5_000, 1_000, 200, 1] {
        let coarse = series(max_rows);
        let ratio = coarse.period.0 / fine.period.0;
        assert!(ratio.is_power_of_two() && ratio > 1);
        let mut expected: BTreeMap<(u32, Carrier), (u64, u64)> = BTreeMap::new();
        for row in &fine.rows {
            let (bytes, peak) = expected.entry((row.period / ratio as u32, row.of)).or_default();
            *bytes += row.bytes.0;
            *peak = row.peak_queue.0.max(*peak);
        }
        let found = coarse.rows.iter();
        let found = found.map(|it| ((it.period, it.of), (it.bytes.0, it.peak_queue.0)));
        assert_eq!(found.collect::<BTreeMap<_, _>>(), expected, "at most {max_rows} rows");
    }
}

#[test]
fn failed_links_lose_what_series_have_counted_as_sent() {
    let mut scenario = scenario("ndp", tree(), crossing());
    let failed = |link, from: u64| Failure {
        links: vec![PacketLinkId(link)],
        time: Time(from * US),
        repaired: Some(Time((from + 9) * US)),
        detection: Duration(5 * US),
    };
    scenario.failures = vec![failed(40, 2), failed(70, 8), failed(1, 12)];
    let alone = play(&scenario).unwrap().0;
    scenario.series = Some(keep(100_000, 3_000));
    let watched = play(&scenario).unwrap().0;
    assert_eq!(alone.hash, watched.hash);
    check_laws(&scenario, &watched);
}

/// Two senders to one host: packets of both come at once, half of them wait.
#[test]
fn a_series_by_hand() {
    let mut scenario = scenario("ideal", star(3, FAST, Duration(US)).unwrap(), vec![]);
    scenario.flows = [0, 1].map(|host| flow((host, 2), 10 * 4096)).to_vec();
    scenario.series = Some(keep(US + 4 * PACKET, 1_000));
    let series = play(&scenario).unwrap().0.series.unwrap();
    let row =
        |of, bytes, peak| SeriesRow { period: 0, of, bytes: Bytes(bytes), peak_queue: Bytes(peak) };
    // Four packets have come out of each uplink, four of these eight have begun to leave the
    // switch, and the first is about to arrive, 2 us and a packet after the start.
    let first: Vec<_> = series.rows.iter().take_while(|row| row.period == 0).copied().collect();
    let expected = [(0, 4 * 4160, 0), (2, 4 * 4160, 0)]
        .map(|(link, bytes, peak)| row(Carrier::Link(PacketLinkId(link)), bytes, peak));
    assert_eq!(first[..2], expected);
    assert_eq!(first[2], row(Carrier::Link(PacketLinkId(5)), 0, 4 * 4160));
    let flows = series.rows.iter().filter(|row| matches!(row.of, Carrier::Flow(_)));
    assert_eq!(flows.map(|row| row.bytes.0).sum::<u64>(), 20 * 4096);
}

#[test]
fn series_that_make_no_sense_are_refused() {
    let mut scenario = scenario("ideal", tree(), vec![]);
    for (period, max_rows) in [(0, 10), (5, 0), (5, 100_000_001)] {
        scenario.series = Some(keep(period, max_rows));
        assert_eq!(
            play(&scenario).unwrap_err().to_string(),
            format!(
                "series of periods of {period} ps and at most {max_rows} rows; expected a period \
                 above 0 and 1 to 100000000 rows"
            )
        );
    }
}

/// Where nothing happens for long, periods become as long as it takes.
#[test]
fn what_begins_late_has_few_periods() {
    let mut scenario = scenario("ideal", star(2, FAST, Duration(US)).unwrap(), vec![]);
    scenario.flows = vec![FlowSpec { start: Time(3_000_000 * US), ..flow((0, 1), 5_000) }];
    scenario.series = Some(keep(US, 1_000_000));
    let report = play(&scenario).unwrap().0;
    check_laws(&scenario, &report);
    let series = report.series.unwrap();
    assert!(series.rows.iter().all(|row| (5_000..10_000).contains(&row.period)));
}
