#include "widgets/plots/axis.h"

#include <fmt/core.h>

#include <QLocale>
#include <QRegularExpression>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/files/text/words.h"

namespace moescope {
namespace {

constexpr std::array<int, 3> kMantissas = {1, 2, 5};
constexpr int kFewestTicks = 3;  // fewer numbers are no scale

// The smallest of 1, 2, 5 x 10^n that is at least `min_step`.
double roundStep(double min_step) {
  const double decade = std::pow(10.0, std::floor(std::log10(min_step)));
  for (const int mantissa : kMantissas)
    if (mantissa * decade >= min_step * (1 - 1e-9)) return mantissa * decade;
  return 10 * decade;
}

QString tickLabel(double value, double step) {
  const double size = std::abs(value);
  if (size == 0 && step < 1e-3) return QStringLiteral("0");
  if (size >= 1e3 && step >= 1) return formatCount(value);
  if (size != 0 && size < 1e-3) return withMinus(QString::number(value, 'g', 3));
  const int decimals = std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 6);
  return withMinus(QLocale::c().toString(value, 'f', decimals));
}

std::vector<Tick> ticksEvery(double step, double low, double high, bool counts) {
  std::vector<Tick> ticks;
  const double slack = step * 1e-6;
  const double first = std::ceil((low - slack) / step), last = std::floor((high + slack) / step);
  // Counts from 0, because adding 1 to a multiple above 2^53 would not change it.
  for (int i = 0; first + i <= last; ++i) {
    const double k = first + i, value = k == 0 ? 0 : k * step;
    ticks.push_back({value, counts ? formatCount(value) : tickLabel(value, step)});
  }
  return ticks;
}

bool usable(double low, double high, int max_ticks) {
  return max_ticks >= 1 && std::isfinite(low) && std::isfinite(high) && high >= low;
}

}  // namespace

double Axis::toPixel(double value) const {
  double a = low, b = high;
  if (log) {
    if (value <= low) return at_low;
    a = std::log10(low);
    b = std::log10(high);
    value = std::log10(value);
  }
  return b == a ? at_low : at_low + (value - a) / (b - a) * (at_high - at_low);
}

double Axis::fromPixel(double pixel) const {
  const double share = at_high == at_low ? 0 : (pixel - at_low) / (at_high - at_low);
  if (!log) return low + share * (high - low);
  return std::pow(10.0, std::log10(low) + share * (std::log10(high) - std::log10(low)));
}

std::vector<Tick> linearTicks(double low, double high, int max_ticks) {
  if (!usable(low, high, max_ticks)) return {};
  if (high == low) return {{low, formatValue(low)}};
  const double step = roundStep((high - low) / max_ticks);
  std::vector<Tick> ticks = ticksEvery(step, low, high, false);
  if (std::ssize(ticks) >= kFewestTicks || max_ticks < 2 || step < 1e-300) return ticks;
  std::vector<Tick> finer = ticksEvery(roundStep(step / 2.6), low, high, false);
  return std::ssize(finer) <= std::max(max_ticks, kFewestTicks + 1) ? finer : ticks;
}

std::vector<Tick> integerTicks(double low, double high, int max_ticks) {
  if (!usable(low, high, max_ticks)) return {};
  // Above 2^53 neighbouring numbers are more than 1 apart.
  const double spacing = std::nextafter(high, std::numeric_limits<double>::infinity()) - high;
  const double step = std::max({1.0, spacing, high == low ? 1.0 : roundStep((high - low) / max_ticks)});
  std::vector<Tick> ticks = ticksEvery(step, low, high, true);
  const double last = std::floor(high);
  if (last < low || (!ticks.empty() && ticks.back().value >= last)) return ticks;
  if (!ticks.empty() && last - ticks.back().value < step / 2) ticks.pop_back();
  ticks.push_back({last, formatCount(last)});
  return ticks;
}

std::vector<Tick> logTicks(double low, double high, int max_ticks) {
  if (!usable(low, high, max_ticks) || low <= 0) return {};
  const double decades = std::log10(high / low);
  if (decades < 1) return linearTicks(low, high, max_ticks);
  const int per_decade = decades * 3 <= max_ticks ? 3 : 1;
  const int stride = per_decade == 3 ? 1 : std::max(1, static_cast<int>(std::ceil(decades / max_ticks)));
  std::vector<Tick> ticks;
  const int last = static_cast<int>(std::floor(std::log10(high) + 1e-9));
  for (int n = static_cast<int>(std::floor(std::log10(low))); n <= last; ++n) {
    if (n % stride != 0) continue;
    for (int i = 0; i < per_decade; ++i) {
      const double value = kMantissas[i] * std::pow(10.0, n);
      if (value < low * (1 - 1e-9) || value > high * (1 + 1e-9)) continue;
      ticks.push_back({value, tickLabel(value, std::min(1.0, value))});
    }
  }
  return ticks;
}

std::vector<Tick> powerOfTwoTicks(int low, int high, int max_ticks) {
  std::vector<Tick> ticks;
  if (max_ticks < 1 || high < low) return ticks;
  int stride = 1;
  while ((high - low) / stride + 1 > max_ticks) stride *= 2;
  for (int k = low; k <= high; ++k)
    if (k % stride == 0) ticks.push_back({static_cast<double>(k), formatPowerOfTwo(k)});
  return ticks;
}

int labelStride(double label, double item, int count) {
  int stride = 1;
  while (stride < count && stride * item < label) stride *= 2;
  return stride;
}

std::vector<Tick> ticksOf(const QStringList& labels) {
  std::vector<Tick> ticks;
  for (const QString& label : labels) ticks.push_back({static_cast<double>(ticks.size()), label});
  return ticks;
}

std::vector<Tick> ticksOf(const std::vector<int>& numbers) {
  QStringList labels;
  for (const int number : numbers) labels << QString::number(number);
  return ticksOf(labels);
}

ValueRange niceRange(double low, double high, bool log) {
  if (!(std::isfinite(low) && std::isfinite(high)) || high < low) return {log ? 0.1 : 0.0, 1.0};
  if (log) {
    if (high <= 0) return {0.1, 1.0};
    low = std::max(low, high * 1e-9);
    const auto down = [](double v) {  // rounds down to 1, 2 or 5 x 10^n
      const double decade = std::pow(10.0, std::floor(std::log10(v) + 1e-9));
      if (v >= 5 * decade) return 5 * decade;
      if (v >= 2 * decade) return 2 * decade;
      return decade;
    };
    const double top = down(high) >= high * (1 - 1e-9) ? high : roundStep(high);
    const double bottom = down(low);
    return {bottom, std::max(top, bottom * 2)};
  }
  if (high == low) {
    const double pad = low == 0 ? 1 : std::abs(low) * 0.1;
    low -= low == 0 ? 0 : pad;
    high += pad;
  }
  const double step = roundStep((high - low) / 8);
  return {std::floor(low / step + 1e-9) * step, std::ceil(high / step - 1e-9) * step};
}

QString formatCount(double value) {
  const double size = std::abs(value);
  if (size < 1e5) return withMinus(QLocale(QLocale::English).toString(std::round(value), 'f', 0));
  constexpr std::array<std::pair<double, const char*>, 4> kUnits = {{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
  for (const auto& [unit, letter] : kUnits)
    if (size >= unit)
      return withMinus(QString::number(value / unit, 'g', size < 1000 * unit ? 3 : 6)) + QLatin1String(letter);
  return QString::number(value);
}

// Rounds like the texts of lessons, so that a number is the same everywhere.
static QString fixedText(double value, int places) {
  return withMinus(QString::fromStdString(fmt::format("{:.{}f}", value, places)));
}

QString formatValue(double value, int digits) {
  if (std::isnan(value)) return QStringLiteral("NaN");
  if (std::isinf(value)) return value > 0 ? QStringLiteral("+Inf") : withMinus(QStringLiteral("-Inf"));
  const double size = std::abs(value);
  if (size == 0) return QStringLiteral("0");
  if (size >= 1e6 || size < 1e-4) return withMinus(QString::number(value, 'e', std::max(0, digits - 2)));
  return fixedText(value, decimal_places(value, digits));
}

QString formatPercent(double share) {
  if (!std::isfinite(share)) return formatValue(share);
  const double percent = share * 100;
  const double size = std::abs(percent);
  if (size != 0 && size < 0.001) return QStringLiteral("<0.001 %");
  if (size == 0) return QStringLiteral("0 %");
  const int digits = 1 + int{size < 10} + int{size < 0.1};
  return fixedText(percent, digits) + QStringLiteral(" %");
}

QString formatBytes(double bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  int unit = 0;
  for (; std::abs(bytes) >= 999.5 && unit < 4; ++unit) bytes /= 1000;
  const int digits = unit == 0 ? 0 : int{std::abs(bytes) < 100} + int{std::abs(bytes) < 10};
  return withMinus(QString::number(bytes, 'f', digits)) + QLatin1Char(' ') + QLatin1String(kUnits[unit]);
}

QString aboutDuration(double seconds) {
  if (seconds < 90) return QStringLiteral("about %1 s").arg(std::max(1.0, std::round(seconds)));
  if (seconds < 5400) return QStringLiteral("about %1 min").arg(std::round(seconds / 60));
  return QStringLiteral("about %1 h").arg(seconds / 3600, 0, 'f', 1);
}

namespace {

// Returns the exponent in superscripts, without spaces; empty if a character has no superscript in Unicode.
QString superscript(QStringView exponent) {
  static const QString kPlain = QStringLiteral("0123456789+-abcdefghijklmnoprstuvwxyzMT");
  static const QString kRaised = QStringLiteral("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻᴹᵀ");
  QString raised;
  for (const QChar c : exponent) {
    if (c.isSpace()) continue;
    const auto at = kPlain.indexOf(c);
    if (at < 0) return {};
    raised += kRaised[at];
  }
  return raised;
}

}  // namespace

QString formatPowerOfTwo(int exponent) {
  return QLatin1Char('2') + superscript(QString::number(exponent));
}

std::vector<double> spreadApart(const std::vector<double>& positions, double gap, double low, double high) {
  struct Group {
    double sum;
    int size;
  };
  const auto middle = [&](const Group& group) {
    const double half_height = (group.size - 1) * gap / 2;
    return std::max(low + half_height, std::min(high - half_height, group.sum / group.size));
  };
  std::vector<Group> groups;
  for (const double position : positions) {
    Group group{position, 1};
    for (; !groups.empty() && middle(group) - middle(groups.back()) < (group.size + groups.back().size) * gap / 2;
         groups.pop_back())
      group = {groups.back().sum + group.sum, groups.back().size + group.size};
    groups.push_back(group);
  }
  std::vector<double> moved;
  for (const Group& group : groups)
    for (int i = 0; i < group.size; ++i) moved.push_back(middle(group) + (i - (group.size - 1) / 2.0) * gap);
  return moved;
}

QString withMinus(QString number) {
  const qsizetype e = number.indexOf(QLatin1Char('e'));
  bool is_power = false;
  const int exponent = e > 0 ? QStringView(number).mid(e + 1).toInt(&is_power) : 0;
  if (is_power) number.truncate(e);
  const auto is_nonzero = [](QChar c) { return c.isLetter() || (c.isDigit() && c != QLatin1Char('0')); };
  if (std::ranges::none_of(number, is_nonzero)) number.remove(QLatin1Char('-'));
  if (is_power) number += QStringLiteral(" \u00d7 10") + superscript(QString::number(exponent));
  return number.replace(QLatin1Char('-'), QChar(0x2212));
}

QString inPrint(const QString& text) {
  if (text.contains('`')) {  // code is printed as it can be typed
    QStringList parts = text.split('`');
    for (qsizetype i = 0; i < parts.size(); i += 2) parts[i] = inPrint(parts[i]);
    return parts.join('`');
  }
  bool is_number = false;
  text.toDouble(&is_number);
  if (is_number) return withMinus(text);
  static const QRegularExpression kPower(
      QStringLiteral(R"((?:(?<=(?<![\w.])2)\^(-?\d+)(?!\d|\.\d))|\^(?:([A-Za-z])\b|\(([^()<>]+)\)))"));
  // Matches a hyphen that is a minus sign, not one in a range.
  static const QRegularExpression kMinus(QStringLiteral(R"((?<![^\s(*])-(?=\d))"));
  // Matches the exponent of "1.2e-05".
  static const QRegularExpression kExponent(QStringLiteral(R"((?<=\d)e([+-]\d{2,3})\b)"));
  // Matches "1.25x", "16 x 16" and "x the mean", not the operand of "35 % of x" or "w1 x".
  static const QRegularExpression kBetween(QStringLiteral(R"((?<=[\d,]) x (?=\d|the ))")),
      kTimes(QStringLiteral(R"((?<=\d)x\b)"));
  QString printed;
  qsizetype done = 0;
  for (auto powers = kPower.globalMatch(text); powers.hasNext();) {
    const auto power = powers.next();
    const QString raised = superscript(power.captured(power.lastCapturedIndex()));
    if (raised.isEmpty()) continue;
    printed.append(QStringView(text).mid(done, power.capturedStart() - done)).append(raised);
    done = power.capturedEnd();
  }
  printed.append(QStringView(text).mid(done));
  for (auto found = kExponent.match(printed); found.hasMatch(); found = kExponent.match(printed))
    printed.replace(found.capturedStart(), found.capturedLength(),
                    QStringLiteral(" \u00d7 10") + superscript(QString::number(found.captured(1).toInt())));
  printed.replace(kBetween, QStringLiteral(" \u00d7 ")).replace(kTimes, QStringLiteral(" \u00d7"));
  return printed.replace(QStringLiteral("+-"), QChar(0xb1)).replace(kMinus, QChar(0x2212));
}

}  // namespace moescope
