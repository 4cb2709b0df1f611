//! Line plots as SVG files: two panels over time, throughput and latency, one colour a server. Writes to `target/`.

use std::fmt::Write;
use std::path::PathBuf;

/// One line of a panel.
pub(crate) struct Line {
    pub(crate) label: String,
    pub(crate) colour: &'static str,
    pub(crate) is_dashed: bool,
    pub(crate) points: Vec<(f64, f64)>,
}

/// One panel, with its axis from 0, or logarithmic from its lowest point.
pub(crate) struct Panel {
    pub(crate) title: &'static str,
    pub(crate) is_logarithmic: bool,
    pub(crate) lines: Vec<Line>,
}

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 30.0;
const TICKS: usize = 5;

/// Writes `target/{name}.svg` and returns its path.
pub(crate) fn write(name: &str, title: &str, panels: &[Panel]) -> PathBuf {
    let height = TOP + panels.len() as f64 * (HEIGHT + TOP + BOTTOM);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{title}</text>\n"
    );
    for (index, panel) in panels.iter().enumerate() {
        let y = TOP + index as f64 * (HEIGHT + TOP + BOTTOM);
        write!(svg, "<g transform=\"translate(0 {y})\">\n{}</g>\n", panel.svg()).unwrap();
    }
    svg += "</svg>\n";
    let path = PathBuf::from("target").join(format!("{name}.svg"));
    std::fs::create_dir_all("target").unwrap();
    std::fs::write(&path, svg).unwrap();
    path
}

impl Panel {
    fn svg(&self) -> String {
        let all = || self.lines.iter().flat_map(|line| &line.points);
        let x_max = all().map(|point| point.0).fold(1.0, f64::max);
        let y_max = all().map(|point| self.scaled(point.1)).fold(self.scaled(1.0), f64::max);
        let y_min = if self.is_logarithmic {
            all().map(|point| self.scaled(point.1)).fold(y_max, f64::min).floor()
        } else {
            0.0
        };
        let (width, below) = (WIDTH - LEFT - RIGHT, TOP + HEIGHT);
        let span = (y_max - y_min).max(f64::MIN_POSITIVE);
        let at = |point: &(f64, f64)| {
            let (x, y) = (point.0 / x_max, (self.scaled(point.1) - y_min) / span);
            (LEFT + x * width, below - y * HEIGHT)
        };
        let mut svg = format!("<text x=\"{LEFT}\" y=\"{}\">{}</text>\n", TOP - 8.0, self.title);
        for tick in 0..=TICKS {
            let part = tick as f64 / TICKS as f64;
            let (x, y) = (LEFT + part * width, below - part * HEIGHT);
            let value = self.unscaled(y_min + part * span);
            writeln!(svg, "<path d=\"M{LEFT} {y:.1}h{width}\" stroke=\"#ddd\"/>").unwrap();
            writeln!(
                svg,
                "<text x=\"{}\" y=\"{y:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                short(value)
            )
            .unwrap();
            let (y, seconds) = (below + 16.0, part * x_max);
            writeln!(svg, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{seconds:.0} s</text>")
                .unwrap();
        }
        for (index, line) in self.lines.iter().enumerate() {
            let points: Vec<String> =
                line.points.iter().map(at).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let (colour, dashes) = (line.colour, if line.is_dashed { "5 3" } else { "none" });
            let stroke = format!("fill=\"none\" stroke=\"{colour}\" stroke-dasharray=\"{dashes}\"");
            writeln!(svg, "<polyline points=\"{}\" {stroke}/>", points.join(" ")).unwrap();
            let (x, y) = (LEFT + width + 12.0, TOP + 14.0 * index as f64);
            writeln!(svg, "<path d=\"M{x} {}h20\" {stroke}/>", y - 4.0).unwrap();
            writeln!(svg, "<text x=\"{}\" y=\"{y}\">{}</text>", x + 26.0, line.label).unwrap();
        }
        svg
    }

    fn scaled(&self, value: f64) -> f64 {
        if self.is_logarithmic { value.max(0.001).log10() } else { value }
    }

    fn unscaled(&self, value: f64) -> f64 {
        if self.is_logarithmic { 10f64.powf(value) } else { value }
    }
}

fn short(value: f64) -> String {
    match value {
        1_000_000.0.. => format!("{:.1}M", value / 1e6),
        1_000.0.. => format!("{:.0}k", value / 1e3),
        10.0.. => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}
