//! Tables of `experiments/packet-validation/table.md`: the reference simulators' completion times
//! and ours, packets and fluid flows.
//!
//! `validation [--write|--check] [FOLDER]`: prints the tables, writes them into the page, or says
//! whether it has them. FOLDER holds the reference set, `../shared/ref` next to the repository
//! unless told. Takes some minutes, on all processors.

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/common/phases.rs"]
mod phases;
#[path = "../tests/common/runs.rs"]
mod runs;
#[path = "../tests/common/scenarios.rs"]
mod scenarios;

use common::{Comparison, FOLDER, Reference, SEEDS, STATISTICS, compare, files, simulate};
use lightloom_model::Rate;
use lightloom_packetsim::{TransportName, profile};
use phases::{PAYLOADS, SCALES, Sizes, errors_by_payload, errors_by_scale, slope};
use runs::{means, runs};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

const PAGE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/packet-validation/table.md");

/// Seeds where packets of each flow take all paths, so that draws matter little.
const SPRAYED_SEEDS: u64 = 5;

const PHASES: [(&str, Sizes); 4] = [
    ("uniform", phases::uniform),
    ("incast", phases::incast),
    ("hot receivers", phases::hot_receivers),
    ("skewed", phases::skewed),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (options, folders): (Vec<_>, Vec<_>) =
        words.iter().map(String::as_str).partition(|word| word.starts_with("--"));
    let (write, check) = (options == ["--write"], options == ["--check"]);
    if folders.len() > 1 || !(options.is_empty() || write || check) {
        eprintln!("usage: validation [--write|--check] [FOLDER]");
        return ExitCode::FAILURE;
    }
    let found = files(Path::new(folders.first().unwrap_or(&FOLDER)), &["sim_"]);
    if found.is_empty() {
        return ExitCode::FAILURE;
    }
    let tables = tables(&found);
    if !write && !check {
        for (_, table) in &tables {
            println!("{table}");
        }
        return ExitCode::SUCCESS;
    }
    let old = std::fs::read_to_string(PAGE).expect("a readable page");
    let new = tables.iter().fold(old.clone(), |text, (name, table)| replace(&text, name, table));
    if write {
        std::fs::write(PAGE, &new).expect("a page that can be written");
    } else if new != old {
        eprintln!("differs: {PAGE}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// The page with another table between its markers.
fn replace(page: &str, name: &str, table: &str) -> String {
    let (begin, end) = (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->"));
    let (before, rest) = page.split_once(&begin).expect("a marker of the table's begin");
    let (_, after) = rest.split_once(&end).expect("a marker of its end");
    format!("{before}{begin}{table}{end}{after}")
}

/// All tables by the names of their markers.
fn tables(files: &[Reference]) -> [(&'static str, String); 7] {
    // What has no transport here is left out; of HPCC there are more runs in another table.
    let is_known = |file: &&Reference| {
        file.transport().parse::<TransportName>().is_ok_and(|name| name != TransportName::Hpcc)
    };
    let (known, _): (Vec<_>, Vec<_>) = files.iter().partition(is_known);
    let (single, rest): (Vec<_>, Vec<_>) =
        known.into_iter().partition(|file| file.flows.len() == 1);
    let (sprayed, drawn): (Vec<_>, Vec<_>) = rest.into_iter().partition(|file| file.is_sprayed());
    [
        ("one-flow", one_flow(&single)),
        ("sprayed", sprayed_table(&sprayed)),
        ("single-path", single_path_table(&drawn)),
        ("shown", runs_table("shown")),
        ("test", runs_table("test")),
        ("payloads", errors_table(&PAYLOADS.map(|it| format!("{it} B")), errors_by_payload, 3)),
        ("flow-sizes", errors_table(&SCALES.map(|it| format!("x {it}")), errors_by_scale, 4)),
    ]
}

/// The transport of a file, and what it makes of queues and paths.
fn label(file: &Reference) -> String {
    match file.transport() {
        "dctcp" => format!("DCTCP, queues of {}", file.last_number()),
        "roce" => "RoCE".to_owned(),
        name => name.to_uppercase(),
    }
}

/// The first cells of a file's row.
fn labels(file: &Reference) -> Vec<String> {
    vec![label(file), format!("`{}`", file.scenario())]
}

/// Rows of cells as text: as many columns of words as told, then numbers.
fn markdown(words: usize, rows: &[Vec<String>]) -> String {
    let mut rules = vec!["---".to_owned(); words];
    rules.resize(rows[0].len(), "---:".to_owned());
    let line = |cells: &Vec<String>| format!("| {} |\n", cells.join(" | "));
    let body: String = rows[1..].iter().map(line).collect();
    line(&rows[0]) + &line(&rules) + &body
}

/// Says what is compared and, once done, how long that took.
fn timed(file: &Reference, seeds: u64) -> [Comparison; 4] {
    let begin = Instant::now();
    let found = compare(file, seeds);
    eprintln!("{}, {seeds} seeds: {:.1} s", file.name, begin.elapsed().as_secs_f64());
    found
}

/// Completion in us of a flow over so many links on an idle network: packets one behind the other,
/// and the acknowledgement of the last. EQDS, which paces by credit, has no short form.
fn closed_form(file: &Reference, links: u64) -> Option<f64> {
    let rate = Rate(100_000_000_000);
    let (config, _) = profile(file.transport(), rate).ok()?;
    if file.transport() == "eqds" {
        return None;
    }
    let microseconds = |bytes: u32| f64::from(bytes) * 8.0 / 100e3;
    let packets = file.flows[0].size.0.div_ceil(u64::from(config.mtu));
    let there = (packets + links - 1) as f64 * microseconds(config.packet_bytes());
    Some(there + links as f64 * (microseconds(config.control_bytes) + 2.0))
}

fn one_flow(files: &[&Reference]) -> String {
    let head = ["transport", "scenario", "links", "closed form", "reference", "ours"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for file in files {
        let links = if file.name.contains("intra") { 2 } else { 6 };
        let form = closed_form(file, links).map_or("-".to_owned(), |time| format!("{time:.3}"));
        let [ours] = simulate(file, 1)[..] else { panic!("one flow in {}", file.name) };
        let cells = [links.to_string(), form, file.times[0].to_string(), format!("{ours:.3}")];
        rows.push([labels(file), cells.to_vec()].concat());
    }
    markdown(2, &rows)
}

fn sprayed_table(files: &[&Reference]) -> String {
    let shown = [0, 2, 3];
    let titles = shown.map(|index| [STATISTICS[index], "ours", "error"]).concat();
    let head = [["transport", "scenario"].as_slice(), &titles].concat();
    let mut rows = vec![head.into_iter().map(str::to_owned).collect()];
    for file in files {
        let found = timed(file, SPRAYED_SEEDS);
        let cells = shown.map(|index| {
            let Comparison { reference, median, .. } = found[index];
            compared(reference, median)
        });
        rows.push([labels(file), cells.concat()].concat());
    }
    markdown(2, &rows)
}

/// Two times in us and the difference, dashes where the reference's is not known.
fn compared(reference: f64, ours: f64) -> [String; 3] {
    if reference.is_nan() {
        return ["-".to_owned(), format!("{ours:.1}"), "-".to_owned()];
    }
    // Rounded, and without the sign of a zero.
    let error = (1000.0 * (ours / reference - 1.0)).round() / 10.0 + 0.0;
    [format!("{reference:.1}"), format!("{ours:.1}"), format!("{error:+.1} %")]
}

fn single_path_table(files: &[&Reference]) -> String {
    let head = [["transport", "scenario"].as_slice(), &STATISTICS].concat();
    let mut rows = vec![head.into_iter().map(str::to_owned).collect()];
    for file in files {
        let cells = timed(file, SEEDS).map(|found| {
            let Comparison { reference, low, high, .. } = found;
            let interval = format!("{low:.0} to {high:.0}");
            let part = 100.0 * found.outside();
            // Nothing that would be shown as 0.0 %.
            if part.abs() < 0.05 {
                return format!("{reference:.0}: {interval}");
            }
            format!("**{reference:.0}**: {interval}, {part:+.1} %")
        });
        rows.push([labels(file), cells.to_vec()].concat());
    }
    markdown(2, &rows)
}

/// Means over runs of the references and of ours.
fn runs_table(part: &str) -> String {
    let shown = [0, 2, 3];
    let titles = shown.map(|index| [STATISTICS[index], "ours", "error"]).concat();
    let head = [["transport", "scenario", "reference, runs"].as_slice(), &titles].concat();
    let mut rows = vec![head.into_iter().map(str::to_owned).collect()];
    for of in runs(part) {
        let is_drawn = ["hpcc", "swift"].contains(&of.transport);
        let begin = Instant::now();
        let ours = means(&of.ours(if is_drawn { SEEDS } else { SPRAYED_SEEDS } as usize));
        eprintln!("{} {}: {:.1} s", of.transport, of.scenario, begin.elapsed().as_secs_f64());
        let theirs = means(&of.statistics);
        let cells = shown.map(|index| compared(theirs[index], ours[index]));
        let simulator = format!("{}, {}", of.simulator, of.statistics.len());
        let words = [of.transport.to_uppercase(), format!("`{}`", of.scenario), simulator];
        rows.push([words.to_vec(), cells.concat()].concat());
    }
    markdown(3, &rows)
}

/// Errors in %, and the slope over the first few of them.
fn errors_table<const COUNT: usize>(
    columns: &[String; COUNT],
    errors: fn(Sizes) -> [f64; COUNT],
    sloping: usize,
) -> String {
    let head = [vec!["phase".to_owned()], columns.to_vec(), vec!["slope".to_owned()]].concat();
    let mut rows = vec![head];
    for (name, sizes) in PHASES {
        let errors = errors(sizes);
        let cells = errors.map(|error| format!("{:+.3} %", 100.0 * error));
        let slope = format!("{:.2}", slope(&errors[..sloping]));
        rows.push([vec![name.to_owned()], cells.to_vec(), vec![slope]].concat());
    }
    markdown(1, &rows)
}
