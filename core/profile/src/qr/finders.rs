//! A cheap look for finder patterns, so that the decoder sees only the part of a picture where a
//! code can be, and no picture so busy that it would never end.

/// More patterns than this are noise: a sheet of 64 codes has 192.
const MOST_FINDERS: usize = 400;

/// Where codes can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Area {
    /// Nowhere that could be told; a small picture is worth a try as a whole.
    Unknown,
    /// In this part: left, top, width, height.
    Part(usize, usize, usize, usize),
    /// The picture is too busy to tell.
    Noise,
}

/// Looks for the dark-light-dark-light-dark pattern of 1:1:3:1:1 along rows, confirmed along the column.
pub(super) fn area(width: usize, height: usize, pixel: impl Fn(usize, usize) -> u8) -> Area {
    let mut found: Vec<(usize, usize, usize)> = Vec::new();
    let mut dark = vec![false; width];
    for y in 0..height {
        binarize(width, |x| pixel(x, y), &mut dark);
        let mut runs = [0usize; 5];
        let (mut start, mut color) = (0, false);
        for x in 0..=width {
            if dark.get(x) == Some(&color) {
                continue;
            }
            runs.rotate_left(1);
            runs[4] = x - start;
            if color && let Some(module) = module(runs) {
                let center = x - runs[4] - runs[3] - runs[2] / 2 - 1;
                let light = (0..width).skip(x - runs[4] - runs[3]).take(1).next().map_or(255, |x| pixel(x, y));
                let limit = u16::midpoint(u16::from(pixel(center, y)), u16::from(light));
                let inside = |y: usize| u16::from(pixel(center, y)) < limit;
                let known =
                    |f: &&(usize, usize, usize)| f.0.abs_diff(center) <= 3 * module && f.1.abs_diff(y) <= 5 * module;
                if found.iter().rev().take(MOST_FINDERS).find(known).is_none() && confirmed(y, height, module, inside) {
                    found.push((center, y, module));
                    if found.len() > MOST_FINDERS {
                        return Area::Noise;
                    }
                }
            }
            (start, color) = (x, !color);
        }
    }
    if found.len() < 3 {
        return Area::Unknown;
    }
    let min = |of: fn(&(usize, usize, usize)) -> usize| found.iter().map(of).min().unwrap_or(0);
    let max = |of: fn(&(usize, usize, usize)) -> usize| found.iter().map(of).max().unwrap_or(0);
    let (left, right, top, bottom) = (min(|f| f.0), max(|f| f.0), min(|f| f.1), max(|f| f.1));
    // A code on its tip reaches beyond its three patterns by as much as they are apart.
    let margin = (right - left).max(bottom - top) + 12 * max(|f| f.2);
    let (left, top) = (left.saturating_sub(margin), top.saturating_sub(margin));
    let (right, bottom) = ((right + margin).min(width), (bottom + margin).min(height));
    Area::Part(left, top, right - left, bottom - top)
}

/// Dark is what is darker than the mean of its surroundings in the row.
fn binarize(width: usize, pixel: impl Fn(usize) -> u8, dark: &mut [bool]) {
    let reach = (width / 16).clamp(8, 200);
    let mut sum: usize = (0..reach.min(width)).map(|x| usize::from(pixel(x))).sum();
    let mut count = reach.min(width);
    for (x, dark) in dark.iter_mut().enumerate() {
        if x + reach < width {
            sum += usize::from(pixel(x + reach));
            count += 1;
        }
        if x > reach {
            sum -= usize::from(pixel(x - reach - 1));
            count -= 1;
        }
        *dark = usize::from(pixel(x)) * count * 100 < sum * 97;
    }
}

/// The size of a module when five runs are in the proportion 1:1:3:1:1, as a pattern's are.
fn module(runs: [usize; 5]) -> Option<usize> {
    let total: usize = runs.iter().sum();
    if total < 10 {
        return None;
    }
    let near = |run: usize, modules: usize| (7 * run).abs_diff(modules * total) * 10 <= total * 8;
    let [a, b, c, d, e] = runs;
    (near(a, 1) && near(b, 1) && near(c, 3) && near(d, 1) && near(e, 1)).then_some(total.div_ceil(7))
}

/// Whether the column through the center goes dark, light, dark in a pattern's proportions, both ways.
fn confirmed(y: usize, height: usize, module: usize, dark: impl Fn(usize) -> bool) -> bool {
    let farthest = 3 * module + 2;
    let run = |from: usize, up: bool, color: bool| {
        let step = |n: usize| if up { from.checked_sub(n) } else { Some(from + n).filter(|y| *y < height) };
        (0..=farthest).take_while(|n| step(*n).is_some_and(|y| dark(y) == color)).count()
    };
    let (up, down) = (run(y, true, true), run(y, false, true));
    let core = (up + down).saturating_sub(1);
    let fits = |run: usize, modules: usize| 2 * run >= modules * module && run <= modules * module * 2;
    let ring = |at: Option<usize>, up: bool| at.is_some_and(|at| at < height && fits(run(at, up, false), 1));
    fits(core, 3) && ring(y.checked_sub(up), true) && ring(Some(y + down), false)
}
