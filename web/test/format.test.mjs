import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  bytes,
  bytesPerSecond,
  count,
  counterValue,
  duration,
  percent,
  signedDuration,
  ticks,
  timeLabel,
  visible,
} from '../src/format.ts';
import { firstBeyondP99, logBins, quantile } from '../src/histogram.ts';

test('figures have a unit and three digits', () => {
  assert.equal(duration(0), '0 s');
  assert.equal(duration(999), '999 ns');
  assert.equal(duration(1234), '1.23 \u00b5s');
  assert.equal(duration(999_600), '1.00 ms');
  assert.equal(duration(17_900_000), '17.9 ms');
  assert.equal(duration(61e9), '61.0 s');
  assert.equal(duration(125e9), '2 min 05 s');
  assert.equal(duration(7384e9), '2 h 03 min');
  assert.equal(duration(null), '\u2013');
  assert.equal(signedDuration(-1500), '\u22121.50 \u00b5s');
  assert.equal(bytes(1023), '1023 B');
  assert.equal(bytes(4096), '4 KiB');
  assert.equal(bytes(1536), '1.50 KiB');
  assert.equal(bytesPerSecond(1_500_000), '1.50 MB/s');
  assert.equal(count(1234567), '1\u202f234\u202f567');
  assert.equal(percent(0.1234), '12.3 %');
  assert.equal(counterValue('read_bytes_per_second', 2e6), '2.00 MB/s');
  assert.equal(counterValue('busy_share', 0.5), '50.0 %');
});

test('what nobody sees is spelled out, and names end', () => {
  assert.equal(visible('abc\u202etxt'), 'abc\u27e8U+202E\u27e9txt');
  assert.equal(visible('a\u0000b'), 'a\u27e8U+0000\u27e9b');
  assert.equal(visible('x'.repeat(10_000)).length, 301);
  assert.equal(visible('<img src=x onerror=1>'), '<img src=x onerror=1>');
});

test('an axis has round values', () => {
  assert.deepEqual(ticks(0, 100, 5), [0, 20, 40, 60, 80, 100]);
  assert.equal(timeLabel(2_500_000, 500_000), '2\u202f500 \u00b5s');
  assert.equal(timeLabel(2_500_000, 5_000_000), '3 ms');
});

test('bins keep the weight', () => {
  const values = [
    { low: 10, high: 19, weight: 5 },
    { low: 1000, high: 1000, weight: 3 },
  ];
  const bins = logBins(values, 20);
  assert.ok(Math.abs(bins.reduce((sum, bin) => sum + bin.weight, 0) - 8) < 1e-9);
  assert.equal(quantile(values, 0.5), 19);
  assert.equal(quantile(values, 0.99), 1000);
  assert.deepEqual(logBins([], 10), []);
});

// Half of the bars were beyond the 99th percentile, and one of nine values was 2.39 of them.
test('values of a narrow histogram are counted whole, and few lie beyond p99', () => {
  const values = [
    { low: 199e6, high: 202e6, weight: 10 },
    { low: 202e6, high: 205e6, weight: 10 },
  ];
  const bins = logBins(values, 40);
  assert.ok(bins.every((bin) => Number.isInteger(bin.weight)));
  assert.equal(firstBeyondP99(bins), bins.length);
  const many = Array.from({ length: 1000 }, (_, i) => ({ low: i + 1, high: i + 1, weight: 1 }));
  const beyond = logBins(many, 40);
  const first = firstBeyondP99(beyond);
  assert.ok(beyond.slice(first).reduce((sum, bin) => sum + bin.weight, 0) <= 10);
  assert.ok(beyond.slice(first - 1).reduce((sum, bin) => sum + bin.weight, 0) > 10);
});
