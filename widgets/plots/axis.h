// Ticks of axes and texts of numbers: pure functions, no widget.
#pragma once

#include <QStringList>
#include <string>
#include <vector>

namespace moescope {

struct Tick {
  double value = 0;
  QString label;
  bool operator==(const Tick&) const = default;
};

// Maps data to pixels along one line. With `log`, log10 of the value is mapped, and values at or below `low` map to
// at_low.
struct Axis {
  double low = 0, high = 1;        // data
  double at_low = 0, at_high = 1;  // pixels; at_high < at_low on a y axis
  bool log = false;
  double toPixel(double value) const;
  double fromPixel(double pixel) const;
};
inline constexpr Axis kPixels{};  // for ticks whose values are pixels

// Ticks at multiples of 1, 2 or 5 times a power of ten, at most `max_ticks` steps inside [low, high], but three ticks
// if the range has them.
std::vector<Tick> linearTicks(double low, double high, int max_ticks);
// Ticks of linearTicks() at whole numbers only, with the last number: for steps, layers and experts.
std::vector<Tick> integerTicks(double low, double high, int max_ticks);
// Ticks at powers of ten; at 2 and 5 times them too if there is room; linearTicks() if the range is within one decade.
std::vector<Tick> logTicks(double low, double high, int max_ticks);
// Ticks at whole k in [low, high], with the labels of formatPowerOfTwo().
std::vector<Tick> powerOfTwoTicks(int low, int high, int max_ticks);
// Ticks at 0, 1, 2, ... with these labels.
std::vector<Tick> ticksOf(const QStringList& labels);
std::vector<Tick> ticksOf(const std::vector<int>& numbers);

// Returns the smallest of 1, 2, 4, ... such that the labels of every n-th of `count` items do not touch: a label takes
// `label` pixels, and an item has `item` pixels, of which there may be none. If there is room for one label only, the
// result is `count` or more.
int labelStride(double label, double item, int count);

// Range of a y axis that contains [low, high] and ends on round numbers, so that it rarely changes.
struct ValueRange {
  double low = 0, high = 1;
  bool operator==(const ValueRange&) const = default;
};
ValueRange niceRange(double low, double high, bool log);

// Numbers are written as in print: with a minus sign (U+2212) unless they are 0, and powers with superscripts.
//
// 1234 -> "1,234"; from 100,000 on with SI prefixes: "123k", "1.23M".
QString formatCount(double value);
// At most `digits` significant digits, with an exponent only if plain digits would be long; "NaN", "+Inf", and "Inf"
// with a minus sign.
QString formatValue(double value, int digits = 4);
// 0.0123 -> "1.23 %"; a tiny share that is not zero never reads as 0.
QString formatPercent(double share);
// Bytes with SI prefixes: "12.3 MB".
QString formatBytes(double bytes);
QString aboutDuration(double seconds);   // "about 40 s", "about 12 min", "about 3.5 h"
QString formatPowerOfTwo(int exponent);  // -6 -> "2" with a superscript -6
// Moves rising positions apart by `gap` or more, groups about their middle, within `low` to `high` if there is room.
std::vector<double> spreadApart(const std::vector<double>& positions, double gap, double low, double high);
// Returns the text of a number as in print: "-1.2e-05" with a minus sign and a power of ten, "-0.0" as "0.0".
QString withMinus(QString number);
// Returns a text of core/, which is written for any terminal, with the signs of print: plus-minus and minus signs, and
// superscripts as far as Unicode has them: 2^-6, 2^k, 2^(k + 1); "1.25x" becomes "1.25 ×", "2e-05" a power of ten.
QString inPrint(const QString& text);
inline QString printedText(const std::string& text) {
  return inPrint(QString::fromStdString(text));
}

}  // namespace moescope
