//! Where everything stands: nodes in ranks from top to bottom, edges in the gaps between them.
//!
//! A node's rank is the longest way to it, ways back left out. An edge leaves a node below and enters one above. Between
//! two ranks each edge has a track of its own; an edge that does not lead to the next rank goes from its track
//! to a lane beside the drawing, forward ones on the left, ways back on the right. So no line runs through a box, and no two
//! labels lie on each other.

use std::collections::BTreeMap;

use machine::outline::Outline;

/// The advance of a character of a monospaced font, in parts of its size.
const ADVANCE: f64 = 0.602;
const TRACK: f64 = 17.0;
const LANE: f64 = 14.0;
const MARGIN: f64 = 24.0;
const BETWEEN: f64 = 36.0;

/// Sizes of the two kinds of text.
pub(super) const NAME_SIZE: f64 = 13.0;
/// The smaller one.
pub(super) const SMALL_SIZE: f64 = 11.0;
/// Height of a line.
pub(super) const LINE: f64 = 16.0;

/// What has to be placed.
#[derive(Debug)]
pub(super) struct Wanted {
    /// The lines of each node, the name first.
    pub(super) nodes: Vec<Vec<String>>,
    /// The label of each edge.
    pub(super) labels: Vec<String>,
}

/// A box.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Rect {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// A line with corners, and where its label begins.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Route {
    pub(super) points: Vec<(f64, f64)>,
    pub(super) label: (f64, f64),
}

/// Everything in its place.
#[derive(Debug, Default)]
pub(super) struct Layout {
    pub(super) boxes: Vec<Rect>,
    pub(super) routes: Vec<Route>,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// How wide a text is; wide characters count twice.
pub(super) fn width(text: &str, size: f64) -> f64 {
    let wide = |c: char| matches!(c as u32, 0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xff60 | 0x1f300..=0x1faff | 0x20000..=0x3fffd);
    text.chars().map(|c| if wide(c) { 2.0 } else { 1.0 }).sum::<f64>() * ADVANCE * size
}

pub(super) fn place(outline: &Outline, wanted: &Wanted, top: f64) -> Layout {
    let ranks = Ranks::of(outline);
    let mut layout =
        Layout { boxes: vec![Rect::default(); outline.nodes.len()], ..Layout::default() };
    for (at, lines) in wanted.nodes.iter().enumerate() {
        let text = lines
            .iter()
            .enumerate()
            .map(|(line, text)| width(text, if line == 0 { NAME_SIZE } else { SMALL_SIZE }));
        layout.boxes[at].width = text.fold(40.0, f64::max) + 24.0;
        layout.boxes[at].height = LINE * lines.len() as f64 + 12.0;
    }
    // A loop hangs at the right of its node, with its label.
    let mut beside = vec![0.0_f64; outline.nodes.len()];
    for (edge, label) in
        outline.edges.iter().zip(&wanted.labels).filter(|(edge, _)| edge.from == edge.to)
    {
        beside[edge.from] = beside[edge.from].max(34.0 + width(label, SMALL_SIZE));
    }
    let plan = Plan::of(outline, &ranks);
    place_columns(&mut layout, &ranks, &beside, plan.left_lanes);
    let inner = layout.width;
    place_rows(&mut layout, &ranks, &plan, top);
    let ports = Ports::of(outline, &layout, &plan);
    for (at, edge) in outline.edges.iter().enumerate() {
        let route = if edge.from == edge.to {
            looped(&layout.boxes[edge.from])
        } else {
            plan.route(at, &layout, &ranks, &ports, (edge.from, edge.to), inner)
        };
        let label = route.label.0 + width(&wanted.labels[at], SMALL_SIZE);
        layout.width = layout.width.max(label);
        layout.routes.push(route);
    }
    layout.width = layout.width.max(inner + plan.right_lanes as f64 * LANE) + MARGIN;
    layout.height += MARGIN;
    layout
}

fn looped(from: &Rect) -> Route {
    let (right, middle) = (from.x + from.width, from.y + from.height / 2.0);
    let points = vec![
        (right, middle - 7.0),
        (right + 22.0, middle - 7.0),
        (right + 22.0, middle + 7.0),
        (right, middle + 7.0),
    ];
    Route { points, label: (right + 28.0, middle + 4.0) }
}

/// Side by side, each rank around the same axis.
fn place_columns(layout: &mut Layout, ranks: &Ranks, beside: &[f64], lanes: usize) {
    let row_width = |row: &[usize], layout: &Layout| {
        let widths = row.iter().map(|at| layout.boxes[*at].width + beside[*at]).sum::<f64>();
        widths + BETWEEN * row.len().saturating_sub(1) as f64
    };
    let widest = ranks.rows.iter().map(|row| row_width(row, layout)).fold(0.0, f64::max);
    let left = MARGIN + lanes as f64 * LANE;
    for row in &ranks.rows {
        // What hangs beside a node does not move the node off the axis, if there is room for it.
        let hanging = row.last().map_or(0.0, |last| beside[*last]);
        let own = row_width(row, layout) - hanging;
        let mut x = left + ((widest - own) / 2.0).min(widest - own - hanging).max(0.0);
        for at in row {
            layout.boxes[*at].x = x;
            x += layout.boxes[*at].width + beside[*at] + BETWEEN;
        }
    }
    layout.width = left + widest + 10.0;
}

fn place_rows(layout: &mut Layout, ranks: &Ranks, plan: &Plan, top: f64) {
    let mut y = top;
    for (rank, row) in ranks.rows.iter().enumerate() {
        y += plan.gap(rank);
        let tallest = row.iter().map(|at| layout.boxes[*at].height).fold(0.0, f64::max);
        for at in row {
            layout.boxes[*at].y = y;
        }
        y += tallest;
    }
    layout.height = y + plan.gap(ranks.rows.len());
}

/// The rank of each node.
#[derive(Debug)]
struct Ranks {
    of: Vec<usize>,
    rows: Vec<Vec<usize>>,
}

impl Ranks {
    fn of(outline: &Outline) -> Ranks {
        let count = outline.nodes.len();
        let mut ways: Vec<Vec<usize>> = vec![Vec::new(); count];
        for edge in outline.edges.iter().filter(|edge| edge.from != edge.to) {
            ways[edge.from].push(edge.to);
        }
        let order = forward_order(&ways);
        let mut place = vec![0; count];
        order.iter().enumerate().for_each(|(at, node)| place[*node] = at);
        let mut of = vec![0; count];
        for node in &order {
            for to in ways[*node].iter().filter(|to| place[**to] > place[*node]) {
                of[*to] = of[*to].max(of[*node] + 1);
            }
        }
        let mut rows = vec![Vec::new(); of.iter().max().map_or(0, |most| most + 1)];
        of.iter().enumerate().for_each(|(node, rank)| rows[*rank].push(node));
        Ranks { of, rows }
    }
}

/// All nodes, each before those that it leads to, ways back apart: the reverse of the order in which a walk leaves them.
/// The walk keeps its own stack, since a workflow may have ten thousand steps in a row.
fn forward_order(ways: &[Vec<usize>]) -> Vec<usize> {
    let mut seen = vec![false; ways.len()];
    let mut left = Vec::with_capacity(ways.len());
    for root in 0..ways.len() {
        if std::mem::replace(&mut seen[root], true) {
            continue;
        }
        let mut stack = vec![(root, 0)];
        while let Some((node, next)) = stack.pop() {
            // The last way first, so that the first ends up before the others.
            match ways[node].iter().rev().nth(next) {
                Some(to) => {
                    stack.push((node, next + 1));
                    if !std::mem::replace(&mut seen[*to], true) {
                        stack.push((*to, 0));
                    }
                }
                None => left.push(node),
            }
        }
    }
    left.reverse();
    left
}

/// Which tracks and lanes each edge has. The gap with the number of a rank lies above it.
#[derive(Debug, Default)]
struct Plan {
    /// For each edge: its track in the gap below its beginning, its lane, and its track in the gap above its end.
    ways: BTreeMap<usize, Way>,
    tracks: BTreeMap<usize, usize>,
    left_lanes: usize,
    right_lanes: usize,
}

#[derive(Debug, Clone, Copy)]
struct Way {
    leaves: usize,
    /// None if it leads to the next rank: the one track is enough.
    around: Option<(Side, usize, usize)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

impl Plan {
    fn of(outline: &Outline, ranks: &Ranks) -> Plan {
        let mut plan = Plan::default();
        // The ranks that each lane is taken for.
        let (mut left, mut right) = (Vec::new(), Vec::new());
        let mut around: Vec<usize> = Vec::new();
        for (at, edge) in outline.edges.iter().enumerate().filter(|(_, edge)| edge.from != edge.to)
        {
            let (from, to) = (ranks.of[edge.from], ranks.of[edge.to]);
            let leaves = plan.track(from + 1);
            plan.ways.insert(at, Way { leaves, around: None });
            if to != from + 1 {
                around.push(at);
            }
        }
        // Short ways take the inner lanes.
        around.sort_by_key(|at| {
            let edge = &outline.edges[*at];
            (ranks.of[edge.from].abs_diff(ranks.of[edge.to]), *at)
        });
        for at in around {
            let edge = &outline.edges[at];
            let (from, to) = (ranks.of[edge.from] + 1, ranks.of[edge.to]);
            let side = if to > from { Side::Left } else { Side::Right };
            let lanes = if side == Side::Left { &mut left } else { &mut right };
            let lane = free_lane(lanes, (from.min(to), from.max(to)));
            let enters = plan.track(to);
            if let Some(way) = plan.ways.get_mut(&at) {
                way.around = Some((side, lane, enters));
            }
        }
        (plan.left_lanes, plan.right_lanes) = (left.len(), right.len());
        plan
    }

    fn track(&mut self, gap: usize) -> usize {
        let used = self.tracks.entry(gap).or_default();
        *used += 1;
        *used - 1
    }

    fn gap(&self, gap: usize) -> f64 {
        let used = self.tracks.get(&gap).copied().unwrap_or_default();
        if used == 0 { 8.0 } else { TRACK * used as f64 + 22.0 }
    }

    fn route(
        &self,
        at: usize,
        layout: &Layout,
        ranks: &Ranks,
        ports: &Ports,
        (from, to): (usize, usize),
        inner: f64,
    ) -> Route {
        let Some(way) = self.ways.get(&at) else { return Route::default() };
        let (start, end) = (&layout.boxes[from], &layout.boxes[to]);
        let (out_x, in_x) = (ports.out[&at], ports.into[&at]);
        let bottom = bottom_of(&ranks.rows[ranks.of[from]], layout);
        let track = |top: f64, track: usize| top + 8.0 + TRACK * (track + 1) as f64 - 4.0;
        let leaves = track(bottom, way.leaves);
        let mut points = vec![(out_x, start.y + start.height), (out_x, leaves)];
        if let Some((side, lane, enters)) = way.around {
            let x = match side {
                Side::Left => MARGIN + (self.left_lanes - lane) as f64 * LANE - LANE,
                Side::Right => inner + lane as f64 * LANE,
            };
            let enters = track(end.y - self.gap(ranks.of[to]), enters);
            points.extend([(x, leaves), (x, enters), (in_x, enters)]);
        } else {
            points.push((in_x, leaves));
        }
        points.push((in_x, end.y));
        Route { points, label: (out_x + 5.0, leaves - 4.0) }
    }
}

fn bottom_of(row: &[usize], layout: &Layout) -> f64 {
    row.iter().map(|at| layout.boxes[*at].y + layout.boxes[*at].height).fold(0.0, f64::max)
}

fn free_lane(lanes: &mut Vec<Vec<(usize, usize)>>, span: (usize, usize)) -> usize {
    let clear =
        |taken: &[(usize, usize)]| taken.iter().all(|other| span.1 < other.0 || other.1 < span.0);
    let lane = lanes.iter().position(|taken| clear(taken)).unwrap_or(lanes.len());
    if lane == lanes.len() {
        lanes.push(Vec::new());
    }
    lanes[lane].push(span);
    lane
}

/// Where edges leave and enter: side by side, in the order of where they lead, so that few cross.
#[derive(Debug)]
struct Ports {
    out: BTreeMap<usize, f64>,
    into: BTreeMap<usize, f64>,
}

impl Ports {
    fn of(outline: &Outline, layout: &Layout, plan: &Plan) -> Ports {
        // What goes around leaves and enters on the side that it goes around.
        let towards =
            |edge: usize, other: usize| match plan.ways.get(&edge).and_then(|way| way.around) {
                Some((Side::Left, ..)) => f64::NEG_INFINITY,
                Some((Side::Right, ..)) => f64::INFINITY,
                None => layout.boxes[other].x + layout.boxes[other].width / 2.0,
            };
        let (mut outs, mut ins) = (BTreeMap::new(), BTreeMap::new());
        for (at, edge) in outline.edges.iter().enumerate().filter(|(_, edge)| edge.from != edge.to)
        {
            outs.entry(edge.from).or_insert_with(Vec::new).push((towards(at, edge.to), at));
            ins.entry(edge.to).or_insert_with(Vec::new).push((towards(at, edge.from), at));
        }
        let spread = |all: BTreeMap<usize, Vec<(f64, usize)>>| {
            let mut ports = BTreeMap::new();
            for (node, mut ends) in all {
                ends.sort_by(|left, right| left.0.total_cmp(&right.0).then(left.1.cmp(&right.1)));
                let own = &layout.boxes[node];
                let step = own.width / (ends.len() + 1) as f64;
                for (place, (_, edge)) in ends.into_iter().enumerate() {
                    ports.insert(edge, own.x + step * (place + 1) as f64);
                }
            }
            ports
        };
        Ports { out: spread(outs), into: spread(ins) }
    }
}
