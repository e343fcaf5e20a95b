//! The network and the parameters that each transport's reference has.

use crate::transport::Parameters;
use crate::transport::dcqcn::DcqcnParameters;
use crate::transport::dctcp::DctcpParameters;
use crate::transport::eqds::EqdsParameters;
use crate::transport::line_rate::TIMEOUT;
use crate::transport::ndp::NdpParameters;
use crate::{Config, Marking, Overflow, PathChoice, TransportKind, TransportName, profile};
use lightloom_model::{Duration, Rate};

#[test]
fn thresholds_of_dcqcn_grow_with_the_rate() {
    let (config, transport) = profile("dcqcn", Rate(800_000_000_000)).unwrap();
    let ecn = config.ecn.unwrap();
    assert_eq!((ecn.min_bytes, ecn.max_bytes), (3_200_000, 12_800_000));
    assert_eq!(config.pfc.unwrap().pause_bytes, 32_000_000);
    let TransportKind::Dcqcn(parameters) = transport else { panic!("another transport") };
    assert_eq!((parameters.additive, parameters.hyper), (Rate(160_000_000), Rate(1_600_000_000)));
}

#[test]
fn every_name_has_a_profile_that_is_valid_and_bears_it() {
    for &name in TransportName::ALL {
        for rate in [1, 100_000_000_000, 3_200_000_000_000, u64::MAX] {
            let (config, transport) = profile(name.name(), Rate(rate)).unwrap();
            assert_eq!(transport.name(), name);
            assert_eq!(config.validate(), Ok(()));
            if let TransportKind::Dcqcn(parameters) = transport {
                assert_eq!(parameters.validate(), Ok(()));
            }
        }
    }
    let error = profile("tcp", Rate(1)).unwrap_err().to_string();
    assert!(error.starts_with("transport = 'tcp': expected one of ideal, roce, dctcp"));
}

#[test]
fn profiles_have_the_networks_of_their_references() {
    let config = |name| profile(name, Rate(100_000_000_000)).unwrap().0;
    let packets = |name, bytes: u32| bytes / config(name).packet_bytes();
    // csg-htsim: pauses from 15 packets on, resumes below 12.
    let pfc = config("roce").pfc.unwrap();
    assert_eq!((pfc.pause_bytes, pfc.resume_bytes), (15 * 4096, 12 * 4096));
    assert!(config("roce").ecn.is_none() && config("ideal").pfc.is_none());
    assert_eq!(config("ideal").queue_bytes, u32::MAX);
    // ffsim-opera: full packets of 8,936 B, 10,000 packets with the one that is sent.
    let dctcp = config("dctcp");
    assert_eq!((dctcp.packet_bytes(), packets("dctcp", dctcp.queue_bytes)), (8936, 9_999));
    let ecn = dctcp.ecn.unwrap();
    assert_eq!((ecn.marking, packets("dctcp", ecn.min_bytes)), (Marking::Departure, 50));
    // 35 packets with the one that is sent; of NDP without their headers.
    for (name, queue) in [("ndp", 35 * 4096 - 4160), ("eqds", 34 * 4160)] {
        let config = config(name);
        assert_eq!((config.queue_bytes, config.paths), (queue, PathChoice::Spray(128)));
        assert!(config.overflow == Overflow::Trim && config.control_priority);
    }
    assert!(config("ndp").full_tail && !config("eqds").full_tail);
}

/// `htsim_uec` prints 43 packets, and marks from 9 to 35 packets, at 100 Gb/s.
#[test]
fn queues_of_ultra_ethernet_hold_what_a_round_trip_takes() {
    let config = profile("uet-nscc", Rate(100_000_000_000)).unwrap().0;
    let ecn = config.ecn.unwrap();
    let packets = [config.queue_bytes, ecn.min_bytes, ecn.max_bytes].map(|it| it / 4160);
    assert_eq!(packets, [42, 9, 35], "the queue without the packet that is sent");
}

#[test]
fn no_timeout_of_a_profile_exceeds_the_longest() {
    for &name in TransportName::ALL {
        let (_, transport) = profile(name.name(), Rate(100_000_000_000)).unwrap();
        let longest = transport.longest_timeout();
        match transport {
            TransportKind::Ideal(_) | TransportKind::Roce(_) => assert_eq!(longest, TIMEOUT),
            TransportKind::Dctcp(it) => assert_eq!(longest.0, it.min_timeout.0 << 12),
            TransportKind::Mptcp(it) => assert_eq!(longest.0, it.min_timeout.0 << 12),
            TransportKind::Dcqcn(it) => assert_eq!(longest, it.timeout),
            TransportKind::Hpcc(it) => assert_eq!(longest, it.timeout),
            TransportKind::Swift(it) => assert_eq!(longest, it.timeout),
            TransportKind::Ndp(it) => assert_eq!(longest.0, 64 * it.timeout.0),
            TransportKind::Nscc(it) => assert_eq!(longest.0, 64 * it.timeout.0),
            TransportKind::Rccc(it) => assert_eq!(longest.0, 64 * it.timeout.0),
            TransportKind::Eqds(it) => assert_eq!(longest.0, 64 * it.timeout.0),
        }
    }
}

#[test]
fn wrong_parameters_are_refused_before_the_run() {
    let topology = crate::presets::star(2, Rate(1), Duration(1)).unwrap();
    let refuse = |transport: TransportKind| {
        transport.simulation(topology.clone(), Config::ENDLESS).map(|_| ()).unwrap_err().to_string()
    };
    let dctcp = DctcpParameters { initial_window: Some(0), ..DctcpParameters::default() };
    assert!(refuse(TransportKind::Dctcp(dctcp)).contains("window of 0 packets"));
    let ndp = NdpParameters { window: Some(0), ..NdpParameters::default() };
    assert!(refuse(TransportKind::Ndp(ndp)).contains("window of 0 packets"));
    let eqds = EqdsParameters { window: Some(0), ..EqdsParameters::default() };
    assert!(refuse(TransportKind::Eqds(eqds)).contains("window of 0 packets"));
    let dcqcn = DcqcnParameters { gain: 0.0, ..DcqcnParameters::of_rate(Rate(1)) };
    assert!(refuse(TransportKind::Dcqcn(dcqcn)).contains("gain 0"));
}
