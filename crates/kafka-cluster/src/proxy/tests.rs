//! The proxy before a server that answers whatever it is told to.

use std::io::{Read, Write};

use super::*;

/// Bound of every wait.
const BOUND: Duration = Duration::from_secs(30);

/// A server, a proxy before it, and a connection through it.
struct Line {
    proxy: Proxy,
    client: TcpStream,
    server: TcpStream,
}

fn line() -> Line {
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let proxy = Proxy::start(&[server.local_addr().unwrap().port()]).unwrap();
    let client = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.ports()[0])).unwrap();
    let (server, _) = server.accept().unwrap();
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(BOUND)).unwrap();
    }
    Line {
        proxy,
        client,
        server,
    }
}

fn framed(body: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
    frame.extend(body);
    frame
}

/// A request with so many bytes behind its header, which is one without a client id.
fn request(api: ApiKey, correlation: i32, len: usize) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(api.0.to_be_bytes());
    body.extend(1_i16.to_be_bytes());
    body.extend(correlation.to_be_bytes());
    body.extend((-1_i16).to_be_bytes());
    body.resize(body.len() + len, 5);
    framed(&body)
}

fn answer(correlation: i32, len: usize) -> Vec<u8> {
    let mut body = correlation.to_be_bytes().to_vec();
    body.resize(body.len() + len, 6);
    framed(&body)
}

fn expect(stream: &mut TcpStream, frame: &[u8]) {
    let mut read = vec![0; frame.len()];
    stream.read_exact(&mut read).unwrap();
    assert!(read == frame, "another frame");
}

fn expect_end(stream: &mut TcpStream) {
    let mut left = Vec::new();
    // A reset is an end as well.
    let _ = stream.read_to_end(&mut left);
    assert!(left.is_empty(), "{left:?}");
}

/// Frames far larger than what is kept of them, both ways at once.
#[test]
fn frames_pass_unchanged() {
    let Line {
        proxy,
        mut client,
        mut server,
    } = line();
    let watch = proxy.rule(Requests::of(ApiKey::FETCH), Action::Watch);
    let sizes = [0, 1, 4096, 16 * 1024, 3_000_000];
    for (correlation, len) in (1..).zip(sizes) {
        let (sent, answered) = (
            request(ApiKey::FETCH, correlation, len),
            answer(correlation, len),
        );
        std::thread::scope(|scope| {
            let mut writer = client.try_clone().unwrap();
            scope.spawn(move || writer.write_all(&sent).unwrap());
            expect(&mut server, &request(ApiKey::FETCH, correlation, len));
            let mut writer = server.try_clone().unwrap();
            scope.spawn(move || writer.write_all(&answered).unwrap());
            expect(&mut client, &answer(correlation, len));
        });
    }
    assert_eq!((watch.arrived(), watch.answered()), (5, 5));
    assert_eq!(proxy.connections(1), 1);
    drop(client);
    expect_end(&mut server);
    assert_eq!(proxy.faults(), []);
}

#[test]
fn what_is_held_goes_on_when_its_rule_is_released_or_dropped() {
    let Line {
        proxy,
        mut client,
        mut server,
    } = line();
    let hold = proxy.rule(Requests::of(ApiKey::PRODUCE), Action::HoldRequest);
    let behind = proxy.rule(Requests::of(ApiKey::FETCH), Action::Watch);
    client.write_all(&request(ApiKey::PRODUCE, 1, 10)).unwrap();
    client.write_all(&request(ApiKey::FETCH, 2, 10)).unwrap();
    hold.wait_for_arrivals(1, BOUND).unwrap();
    assert_eq!(behind.arrived(), 0, "a connection is a queue");
    hold.release();
    expect(&mut server, &request(ApiKey::PRODUCE, 1, 10));
    expect(&mut server, &request(ApiKey::FETCH, 2, 10));
    assert_eq!(behind.arrived(), 1);

    let hold = proxy.rule(Requests::of(ApiKey::FETCH), Action::HoldResponse);
    // That rule is younger than the request.
    server.write_all(&answer(1, 0)).unwrap();
    server.write_all(&answer(2, 0)).unwrap();
    expect(&mut client, &answer(1, 0));
    expect(&mut client, &answer(2, 0));
    client.write_all(&request(ApiKey::FETCH, 3, 10)).unwrap();
    expect(&mut server, &request(ApiKey::FETCH, 3, 10));
    server.write_all(&answer(3, 0)).unwrap();
    hold.wait_for_answers(1, BOUND).unwrap();
    // The other direction is another queue.
    client.write_all(&request(ApiKey::METADATA, 4, 0)).unwrap();
    expect(&mut server, &request(ApiKey::METADATA, 4, 0));
    drop(hold);
    expect(&mut client, &answer(3, 0));

    let delay = Action::DelayRequest(Duration::from_millis(1));
    let delay = proxy.rule(Requests::of(ApiKey::METADATA), delay);
    client.write_all(&request(ApiKey::METADATA, 5, 0)).unwrap();
    expect(&mut server, &request(ApiKey::METADATA, 5, 0));
    assert_eq!(delay.arrived(), 1);
}

#[test]
fn what_is_dropped_cuts_the_connection() {
    let mut line = line();
    let drop_one = Requests::of(ApiKey::END_TXN).next(1);
    let dropped = line.proxy.rule(drop_one.clone(), Action::DropRequest);
    line.client
        .write_all(&request(ApiKey::END_TXN, 1, 0))
        .unwrap();
    expect_end(&mut line.client);
    expect_end(&mut line.server);
    assert_eq!((dropped.arrived(), dropped.answered()), (1, 0));

    let mut line = self::line();
    let lost = line.proxy.rule(drop_one, Action::DropResponse);
    line.client
        .write_all(&request(ApiKey::END_TXN, 1, 0))
        .unwrap();
    expect(&mut line.server, &request(ApiKey::END_TXN, 1, 0));
    line.server.write_all(&answer(1, 0)).unwrap();
    expect_end(&mut line.client);
    assert_eq!((lost.arrived(), lost.answered()), (1, 1));
    assert_eq!(line.proxy.faults(), []);
}

#[test]
fn what_is_no_frame_ends_the_connection_and_is_told() {
    let too_long = (FRAME_LEN_MAX + 1).to_be_bytes();
    let no_header = framed(&[0xff; 12]);
    for (sent, expected) in [
        (&too_long[..], FaultKind::RequestLength(FRAME_LEN_MAX + 1)),
        (&no_header, FaultKind::RequestHeader),
        (&framed(&[]), FaultKind::RequestHeader),
    ] {
        let mut line = line();
        line.client.write_all(sent).unwrap();
        expect_end(&mut line.client);
        expect_end(&mut line.server);
        let kinds: Vec<FaultKind> = line.proxy.faults().iter().map(|fault| fault.kind).collect();
        assert_eq!(kinds, [expected]);
    }
    for (answered, expected) in [
        (framed(&[0; 3]), FaultKind::AnswerLength(3)),
        (answer(8, 0), FaultKind::UnexpectedAnswer(8)),
    ] {
        let mut line = line();
        line.client
            .write_all(&request(ApiKey::FETCH, 7, 0))
            .unwrap();
        expect(&mut line.server, &request(ApiKey::FETCH, 7, 0));
        line.server.write_all(&answered).unwrap();
        expect_end(&mut line.client);
        let kinds: Vec<FaultKind> = line.proxy.faults().iter().map(|fault| fault.kind).collect();
        assert_eq!(kinds, [expected]);
    }
}

/// The largest length that passes.
const FRAME_LEN_MAX: u32 = super::frame::FRAME_MAX;

#[test]
fn a_broker_that_is_out_of_reach_comes_back() {
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let proxy = Proxy::start(&[server.local_addr().unwrap().port()]).unwrap();
    let connect = || {
        let client = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.ports()[0])).unwrap();
        client.set_read_timeout(Some(BOUND)).unwrap();
        client
    };
    let mut before = connect();
    let (mut served, _) = server.accept().unwrap();
    proxy.set_reach(1, Reach::Refused);
    expect_end(&mut before);
    expect_end(&mut served);
    expect_end(&mut connect());
    assert_eq!(proxy.connections(1), 0);

    proxy.set_reach(1, Reach::Silent);
    let mut client = connect();
    let (mut served, _) = server.accept().unwrap();
    let watch = proxy.rule(Requests::of(ApiKey::FETCH), Action::Watch);
    client.write_all(&request(ApiKey::FETCH, 1, 0)).unwrap();
    watch.wait_for_arrivals(1, BOUND).unwrap();
    served.set_nonblocking(true).unwrap();
    let read = served.read(&mut [0; 1]);
    assert_eq!(
        read.unwrap_err().kind(),
        io::ErrorKind::WouldBlock,
        "nothing passes"
    );
    served.set_nonblocking(false).unwrap();
    proxy.set_reach(1, Reach::Open);
    expect(&mut served, &request(ApiKey::FETCH, 1, 0));
    proxy.cut_all();
    expect_end(&mut client);
    expect_end(&mut served);
    // A client may come back at once.
    let _client = connect();
    server.accept().unwrap();
}

/// With a request held, an answer held, and a connection that nobody uses; whoever waits is told.
#[test]
fn a_drop_ends_everything() {
    let mut line = line();
    let idle = TcpStream::connect((Ipv4Addr::LOCALHOST, line.proxy.ports()[0])).unwrap();
    let requests = line
        .proxy
        .rule(Requests::of(ApiKey::PRODUCE), Action::HoldRequest);
    let answers = line
        .proxy
        .rule(Requests::of(ApiKey::FETCH), Action::HoldResponse);
    line.client
        .write_all(&request(ApiKey::FETCH, 1, 0))
        .unwrap();
    line.client
        .write_all(&request(ApiKey::PRODUCE, 2, 0))
        .unwrap();
    expect(&mut line.server, &request(ApiKey::FETCH, 1, 0));
    line.server.write_all(&answer(1, 0)).unwrap();
    requests.wait_for_arrivals(1, BOUND).unwrap();
    answers.wait_for_answers(1, BOUND).unwrap();
    let port = line.proxy.ports()[0];
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| requests.wait_for_arrivals(9, BOUND));
        drop(line.proxy);
        assert_eq!(waiting.join().unwrap(), Err(WaitError::Ended));
    });
    expect_end(&mut line.client);
    expect_end(&mut line.server);
    drop(idle);
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap_err();
    assert_eq!((requests.held(), answers.held()), (0, 0));
    let late = answers.wait_for_answers(9, Duration::ZERO);
    assert_eq!(late, Err(WaitError::Ended));
}

#[test]
fn a_wait_that_is_over_says_what_it_has_seen() {
    let line = line();
    let watch = line.proxy.rule(Requests::of(ApiKey::FETCH), Action::Watch);
    let late = watch
        .wait_for_arrivals(2, Duration::from_millis(1))
        .unwrap_err();
    assert_eq!(
        late.to_string(),
        "0 of 2 requests arrived within 1ms",
        "{late:?}"
    );
}
