//! `math`. It touches nothing outside of the machine.

use super::{Row, random};
use crate::error::Result;
use crate::number;
use crate::value::{TableId, Value};
use crate::vm::{Args, Host, Vm};

const ROWS: &[Row] = &[
    ("abs", |vm, _, args| map(vm, args, f64::abs)),
    ("acos", |vm, _, args| map(vm, args, f64::acos)),
    ("asin", |vm, _, args| map(vm, args, f64::asin)),
    ("atan", |vm, _, args| map(vm, args, f64::atan)),
    ("atan2", |vm, _, args| map_two(vm, args, f64::atan2)),
    ("ceil", |vm, _, args| map(vm, args, f64::ceil)),
    ("cos", |vm, _, args| map(vm, args, f64::cos)),
    ("cosh", |vm, _, args| map(vm, args, f64::cosh)),
    ("deg", |vm, _, args| map(vm, args, |x| x / (std::f64::consts::PI / 180.0))),
    ("exp", |vm, _, args| map(vm, args, f64::exp)),
    ("floor", |vm, _, args| map(vm, args, f64::floor)),
    ("fmod", |vm, _, args| map_two(vm, args, |x, y| x % y)),
    ("frexp", frexp),
    ("ldexp", ldexp),
    ("log", |vm, _, args| map(vm, args, f64::ln)),
    ("log10", |vm, _, args| map(vm, args, f64::log10)),
    ("max", |vm, _, args| fold(vm, args, |best, x| x > best)),
    ("min", |vm, _, args| fold(vm, args, |best, x| x < best)),
    ("mod", |vm, _, args| map_two(vm, args, |x, y| x % y)),
    ("modf", modf),
    ("pow", |vm, _, args| map_two(vm, args, f64::powf)),
    ("rad", |vm, _, args| map(vm, args, |x| x * (std::f64::consts::PI / 180.0))),
    ("random", random),
    ("randomseed", random_seed),
    ("sin", |vm, _, args| map(vm, args, f64::sin)),
    ("sinh", |vm, _, args| map(vm, args, f64::sinh)),
    ("sqrt", |vm, _, args| map(vm, args, f64::sqrt)),
    ("tan", |vm, _, args| map(vm, args, f64::tan)),
    ("tanh", |vm, _, args| map(vm, args, f64::tanh)),
];

pub(super) fn open(vm: &mut Vm, globals: TableId) -> Result<()> {
    let table = super::library(vm, ROWS)?;
    vm.set_field(table, "pi", Value::Num(std::f64::consts::PI))?;
    vm.set_field(table, "huge", Value::Num(f64::INFINITY))?;
    vm.set_field(globals, "math", table.into())
}

fn map(vm: &mut Vm, args: Args, f: impl Fn(f64) -> f64) -> Result<usize> {
    let x = vm.check_num(args, 0)?;
    vm.one(f(x))
}

fn map_two(vm: &mut Vm, args: Args, f: impl Fn(f64, f64) -> f64) -> Result<usize> {
    let (x, y) = (vm.check_num(args, 0)?, vm.check_num(args, 1)?);
    vm.one(f(x, y))
}

fn fold(vm: &mut Vm, args: Args, is_better: impl Fn(f64, f64) -> bool) -> Result<usize> {
    let mut best = vm.check_num(args, 0)?;
    for i in 1..args.len() {
        let x = vm.check_num(args, i)?;
        if is_better(best, x) {
            best = x;
        }
    }
    vm.one(best)
}

/// A fraction between a half and one, and a power of two.
fn frexp(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<usize> {
    let x = vm.check_num(args, 0)?;
    let (fraction, exponent) = if x == 0.0 || !x.is_finite() {
        (x, 0)
    } else {
        let scaled = if x.abs() < f64::MIN_POSITIVE { x * 2_f64.powi(54) } else { x };
        let shift = if scaled == x { 0 } else { 54 };
        let bits = scaled.to_bits();
        let exponent = (bits >> 52 & 0x7FF) as i32 - 1022;
        (f64::from_bits(bits & !(0x7FF << 52) | 1022 << 52), exponent - shift)
    };
    vm.push(Value::Num(fraction));
    vm.push(Value::Num(f64::from(exponent)));
    Ok(2)
}

fn ldexp(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<usize> {
    let (x, exponent) = (vm.check_num(args, 0)?, vm.check_int(args, 1)? as i32);
    vm.one(number::scale(x, exponent))
}

fn modf(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<usize> {
    let x = vm.check_num(args, 0)?;
    let fraction = if x.is_infinite() { 0.0_f64.copysign(x) } else { (x - x.trunc()).copysign(x) };
    vm.push(Value::Num(x.trunc()));
    vm.push(Value::Num(fraction));
    Ok(2)
}

fn random(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<usize> {
    let share = random::share(&mut vm.random);
    let value = match args.len() {
        0 => share,
        1 => {
            let high = vm.check_int(args, 0)? as i32;
            if high < 1 {
                return Err(vm.bad_argument(args, 0, "interval is empty"));
            }
            (share * f64::from(high)).floor() + 1.0
        }
        2 => {
            let (low, high) = (vm.check_int(args, 0)? as i32, vm.check_int(args, 1)? as i32);
            if low > high {
                return Err(vm.bad_argument(args, 1, "interval is empty"));
            }
            let span = high.wrapping_sub(low).wrapping_add(1);
            (share * f64::from(span)).floor() + f64::from(low)
        }
        _ => return Err(vm.error("wrong number of arguments")),
    };
    vm.one(value)
}

fn random_seed(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<usize> {
    let seed = vm.check_int(args, 0)? as i32;
    vm.random = random::seeded(seed);
    Ok(0)
}
