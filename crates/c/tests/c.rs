//! The header against this crate, and the example in C: compiled, linked both ways and run.

use lightloom::{LightloomCircuit, LightloomDecision, List, Status, Text};
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::Command;

const HEADER: &str = include_str!("../include/lightloom.h");
const INTERFACE: &str = include_str!("../src/interface.rs");

/// Values of `#define`s.
fn constants() -> BTreeMap<&'static str, u64> {
    let define = |line: &'static str| {
        let mut words = line.strip_prefix("#define LIGHTLOOM_")?.split_whitespace();
        Some((words.next()?, words.next()?.parse().ok()?))
    };
    HEADER.lines().filter_map(define).collect()
}

#[test]
fn constants_are_those_of_the_crate() {
    let expected = [
        ("ABI_VERSION", u64::from(lightloom::ABI_VERSION)),
        ("OK", Status::Ok as u64),
        ("INVALID", Status::Invalid as u64),
        ("TOO_SMALL", Status::TooSmall as u64),
        ("BUSY", Status::Busy as u64),
        ("INTERNAL", Status::Internal as u64),
        ("MAX_SERVERS", lightloom::MAX_SERVERS as u64),
        ("MAX_PORTS", u64::from(lightloom::MAX_PORTS)),
        ("MAX_ALL_TO_ALLS", lightloom::MAX_ALL_TO_ALLS as u64),
        ("MAX_TEXT_BYTES", lightloom::MAX_TEXT_BYTES as u64),
        ("HELD", List::Held as u64),
        ("DECIDED", List::Decided as u64),
        ("CREATE", List::Create as u64),
        ("DELETE", List::Delete as u64),
        ("KEEP", List::Keep as u64),
        ("MOVED_FROM", List::MovedFrom as u64),
        ("MOVED_TO", List::MovedTo as u64),
        ("LOST", List::Lost as u64),
        ("STATE", Text::State as u64),
        ("DECISION", Text::Decision as u64),
        ("REASON", Text::Reason as u64),
    ];
    assert_eq!(constants(), BTreeMap::from(expected));
}

/// A parameter or result as C and Rust call it.
fn plain(text: &str) -> String {
    let word = |name: &str| {
        match name {
            "u32" | "uint32_t" => "u32",
            "u64" | "uint64_t" => "u64",
            "i32" | "int32_t" => "i32",
            "usize" | "size_t" => "usize",
            "c_char" | "char" => "char",
            "LightloomDecider" | "lightloom_decider" => "decider",
            "LightloomDecision" | "lightloom_decision" => "decision",
            "LightloomCircuit" | "lightloom_circuit" => "circuit",
            other => panic!("a type without a name: {other} in {text}"),
        }
        .to_owned()
    };
    let rust = text.replace("*mut ", "*").replace("*const ", "const *");
    let pointers = rust.matches('*').count();
    let bare = rust.replace("const ", "").replace('*', "");
    let constant = if rust.contains("const ") { "const " } else { "" };
    format!("{constant}{}{}", word(bare.trim()), "*".repeat(pointers))
}

/// Functions with their parameters and result, as the header declares them.
fn declared() -> BTreeMap<String, Vec<String>> {
    let code = HEADER.split_once("uint32_t lightloom_abi_version").expect("declarations").1;
    let code = format!("uint32_t lightloom_abi_version{code}");
    let mut found = BTreeMap::new();
    let mut rest = code.as_str();
    while let Some((comment_free, after)) = rest.split_once(");") {
        let start = comment_free.rfind("*/").map_or(0, |end| end + 2);
        let (head, parameters) = comment_free[start..].split_once('(').expect("a declaration");
        let name_at = head.find("lightloom_").filter(|_| !head.contains("lightloom_decider"));
        let name_at = name_at.expect("a function");
        let (result, name) = head.split_at(name_at);
        let parameter = |text: &str| {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let end = text.rfind(|c: char| !(c.is_alphanumeric() || c == '_')).expect("a name") + 1;
            plain(&text[..end])
        };
        let mut types: Vec<String> = match parameters {
            "void" => Vec::new(),
            list => list.split(',').map(parameter).collect(),
        };
        let result = result.trim();
        types.push(if result == "void" { "void".into() } else { plain(result) });
        found.insert(name.trim().to_owned(), types);
        rest = after;
    }
    found
}

/// The same as the crate exports them.
fn exported() -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    for part in INTERFACE.split("#[unsafe(no_mangle)]").skip(1) {
        let head = part.split_once("extern \"C\" fn ").expect("a function").1;
        let (name, rest) = head.split_once('(').expect("parameters");
        let (parameters, rest) = rest.split_once(')').expect("parameters");
        let result = rest.split_once('{').expect("a body").0.trim();
        let parameters = parameters.split(',').map(str::trim).filter(|text| !text.is_empty());
        let mut types: Vec<String> =
            parameters.map(|text| plain(text.split_once(':').expect("a type").1.trim())).collect();
        types.push(result.strip_prefix("-> ").map_or("void".into(), plain));
        found.insert(name.to_owned(), types);
    }
    found
}

#[test]
fn functions_are_those_of_the_crate() {
    assert_eq!(declared(), exported());
    assert_eq!(exported().len(), 11);
}

/// Where cargo puts libraries: next to this test, or one folder above.
fn library(name: &str) -> PathBuf {
    let here = env::current_exe().expect("this test");
    let deps = here.parent().expect("a folder");
    let places = [deps.join(name), deps.with_file_name(name)];
    places.into_iter().find(|path| path.is_file()).unwrap_or_else(|| panic!("{name} was not built"))
}

/// Compiles a program in C, linked with a library; nothing without a compiler.
fn compile(source: &Path, library: Option<&Path>, output: &Path) -> Option<()> {
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".into());
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
    let mut command = Command::new(compiler);
    command.args(["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-I", include]);
    command.arg(source).arg("-o").arg(output);
    if let Some(library) = library {
        command.arg(library).args(["-lpthread", "-ldl", "-lm"]);
    }
    let Ok(done) = command.output() else {
        eprintln!("skipped: there is no C compiler (cc, or the one that CC names)");
        return None;
    };
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Some(())
}

fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&path).expect("a folder for tests");
    path
}

/// What a program prints.
fn output(program: &Path, libraries: &Path) -> String {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", libraries).env("DYLD_LIBRARY_PATH", libraries);
    let done = command.output().expect("the program");
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{:?}: {errors}", done.status);
    String::from_utf8(done.stdout).expect("text")
}

#[test]
fn structs_lie_as_in_the_crate() {
    let circuit = ["server_a", "nic_a", "server_b", "nic_b"];
    let offsets = [
        offset_of!(LightloomCircuit, server_a),
        offset_of!(LightloomCircuit, nic_a),
        offset_of!(LightloomCircuit, server_b),
        offset_of!(LightloomCircuit, nic_b),
        size_of::<LightloomCircuit>(),
        offset_of!(LightloomDecision, ready_after_ps),
        offset_of!(LightloomDecision, makespan_s),
        offset_of!(LightloomDecision, bound_s),
        offset_of!(LightloomDecision, saved_s),
        offset_of!(LightloomDecision, hold_s),
        offset_of!(LightloomDecision, switch_s),
        offset_of!(LightloomDecision, exposed_s),
        offset_of!(LightloomDecision, pairs),
        offset_of!(LightloomDecision, circuits),
        offset_of!(LightloomDecision, created),
        offset_of!(LightloomDecision, deleted),
        offset_of!(LightloomDecision, kept),
        offset_of!(LightloomDecision, moved),
        offset_of!(LightloomDecision, lost),
        offset_of!(LightloomDecision, reconfigure),
        offset_of!(LightloomDecision, reason),
        size_of::<LightloomDecision>(),
    ];
    let decision = "ready_after_ps makespan_s bound_s saved_s hold_s switch_s exposed_s pairs \
                    circuits created deleted kept moved lost reconfigure reason";
    let places = circuit.iter().map(|field| format!("offsetof(lightloom_circuit, {field})"));
    let others = decision.split_whitespace();
    let others = others.map(|field| format!("offsetof(lightloom_decision, {field})"));
    let values: Vec<String> = places
        .chain(["sizeof(lightloom_circuit)".into()])
        .chain(others)
        .chain(["sizeof(lightloom_decision)".into()])
        .map(|value| format!("    printf(\"%zu\\n\", {value});\n"))
        .collect();
    let (head, body) = ("#include <lightloom.h>\n#include <stdio.h>\n", values.concat());
    let source = format!("{head}int main(void)\n{{\n{body}    return 0;\n}}\n");
    let place = folder("layout");
    let (file, program) = (place.join("layout.c"), place.join("layout"));
    std::fs::write(&file, source).expect("a file");
    if compile(&file, None, &program).is_some() {
        let found = output(&program, &place);
        let found: Vec<usize> = found.lines().map(|line| line.parse().expect("a size")).collect();
        assert_eq!(found, offsets);
    }
}

#[test]
fn the_example_decides() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/decide.c");
    let place = folder("example");
    let names = if cfg!(target_os = "macos") {
        ["liblightloom.a", "liblightloom.dylib"]
    } else {
        ["liblightloom.a", "liblightloom.so"]
    };
    // 50 MB take 1 ms over one circuit and 500 us over two.
    let expected = "Switched: the upcoming all-to-alls take 1 ms with the circuits held and 500 us \
                    after a switch that exposes 100 us and changes 2 pairs.\n\
                    create 0/1 - 1/1\ncreate 2/0 - 3/0\n\
                    Held: no circuits could save the upcoming all-to-alls more than 0 s, but any \
                    switch exposes 100 us.\n";
    let mut outputs = BTreeSet::new();
    for name in names {
        let library = library(name);
        let program = place.join(name.replace('.', "_"));
        if compile(&source, Some(&library), &program).is_none() {
            return;
        }
        outputs.insert(output(&program, library.parent().expect("a folder")));
    }
    assert_eq!(outputs, BTreeSet::from([expected.to_owned()]));
}
