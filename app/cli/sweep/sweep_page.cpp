#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include "app/cli/sweep/sweep_table.h"
#include "core/files/assets.h"
#include "core/files/text/words.h"

namespace moescope {
namespace {

// Sizes in pixels.
constexpr int kWidth = 760, kRow = 26, kTop = 10, kAxis = 44, kLabel = 300, kRight = 20;
constexpr int kMaxTicks = 6;

std::string escaped(const std::string& text) {
  constexpr const char* kEntities[] = {"&amp;", "&lt;", "&gt;"};
  std::string html;
  for (const char c : text) {
    const std::size_t entity = std::string_view("&<>").find(c);
    html += entity == std::string_view::npos ? std::string(1, c) : kEntities[entity];
  }
  return html;
}

// Returns the text with plus-minus and minus signs in HTML.
std::string printed(std::string text) {
  for (std::size_t at = 0; (at = text.find("+-", at)) != std::string::npos;) text.replace(at, 2, "&plusmn;");
  if (text.starts_with('-')) text.replace(0, 1, "&minus;");
  return text;
}

std::string label_of(const SweepResult& result, const SweepPoint& point) {
  std::string label;
  for (std::size_t a = 0; a < result.axes.size(); ++a) {
    const std::string& key = result.axes[a].field->key;
    label += fmt::format("{}{} {}", a ? ", " : "", key.substr(key.find('.') + 1), point.values[a]);
  }
  return label;
}

// The axis of losses over the width of the figure.
class Axis {
 public:
  explicit Axis(const SweepResult& result) {
    for (const SweepPoint& point : result.points) {
      for (const double loss : point.losses) hold(loss);
      hold(point.loss.mean - point.loss.half_width);
      hold(point.loss.mean + point.loss.half_width);
    }
    if (!(low_ <= high_)) {  // no run has a loss
      low_ = 0;
      high_ = 1;
    }
    const double room = high_ > low_ ? 0.04 * (high_ - low_) : 0.5;
    low_ -= room;
    high_ += room;
  }
  double x(double loss) const { return kLabel + (loss - low_) / (high_ - low_) * (kWidth - kLabel - kRight); }
  double first_tick() const { return std::ceil(low_ / step()) * step(); }
  double high() const { return high_; }
  double step() const {
    const double min_step = (high_ - low_) / kMaxTicks, decade = std::pow(10, std::floor(std::log10(min_step)));
    for (const double times : {1.0, 2.0, 5.0})
      if (times * decade >= min_step) return times * decade;
    return 10 * decade;
  }

 private:
  void hold(double value) {
    if (std::isnan(value)) return;
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
  }
  double low_ = std::numeric_limits<double>::infinity(), high_ = -low_;
};

std::string picture(const SweepResult& result) {
  const Axis axis(result);
  const int bottom = kTop + kRow * to_int(result.points.size());
  std::string svg = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Loss of each setting\">\n",
                                kWidth, bottom + kAxis);
  const int digits = std::clamp(static_cast<int>(std::ceil(-std::log10(axis.step()))), 0, 8);
  for (double tick = axis.first_tick(); tick <= axis.high(); tick += axis.step())
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\"/><text x=\"{:.1f}\" y=\"{}\" "
        "text-anchor=\"middle\">{:.{}f}</text>\n",
        axis.x(tick), axis.x(tick), kTop, bottom, axis.x(tick), bottom + 16, tick, digits);
  svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">loss, nats/token</text>\n",
                     (kLabel + kWidth - kRight) / 2, bottom + 36);
  int y = kTop + kRow / 2;
  for (const SweepPoint& point : result.points) {
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", kLabel - 12, y + 4,
                       escaped(label_of(result, point)));
    if (!std::isnan(point.loss.half_width))
      svg += fmt::format("<line class=\"half\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\"/>",
                         axis.x(point.loss.mean - point.loss.half_width),
                         axis.x(point.loss.mean + point.loss.half_width), y, y);
    for (const double loss : point.losses)
      if (!std::isnan(loss))
        svg += fmt::format("<circle class=\"seed\" cx=\"{:.1f}\" cy=\"{}\" r=\"4\"/>", axis.x(loss), y);
    if (!std::isnan(point.loss.mean))
      svg += fmt::format("<line class=\"mean\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\"/>",
                         axis.x(point.loss.mean), axis.x(point.loss.mean), y - 9, y + 9);
    else
      svg += fmt::format("<text x=\"{}\" y=\"{}\">no loss: {} lost</text>", kLabel, y + 4, point.lost);
    svg += '\n';
    y += kRow;
  }
  return svg + "</svg>\n";
}

std::string figure_of(const SweepPoint& point, const SweepColumn& column) {
  const SeedMean& figure = point.*column.figure;
  if (std::isnan(figure.mean)) return "";
  const std::string text = cell_text({.format = column.format}, figure.mean);
  return printed(
      std::isnan(figure.half_width) || !column.half_key ? text : fmt::format("{} +-{:.4f}", text, figure.half_width));
}

std::string table(const SweepResult& result) {
  std::string html = "<table>\n<tr>";
  for (const SweepAxis& axis : result.axes) html += "<th>" + escaped(axis.field->key) + "</th>";
  for (const SweepColumn& column : kSweepColumns) html += std::string("<th class=\"figure\">") + column.title + "</th>";
  html += "<th class=\"figure\">seeds</th></tr>\n";
  for (const SweepPoint& point : result.points) {
    html += "<tr>";
    for (const std::string& value : point.values) html += "<td>" + escaped(value) + "</td>";
    const std::string seeds =
        fmt::format("{}{}", point.ended, point.lost > 0 ? fmt::format(", {} lost", point.lost) : "");
    for (const SweepColumn& column : kSweepColumns)
      html += "<td class=\"figure\">" + figure_of(point, column) + "</td>";
    html += "<td class=\"figure\">" + seeds + "</td></tr>\n";
  }
  return html + "</table>\n";
}

constexpr const char* kStyle = R"(
body { max-width: 1240px; margin: 24px auto; padding: 0 16px; }
table { border-collapse: collapse; display: block; overflow-x: auto; background: var(--surface); }
th, td { padding: 4px 12px; border-bottom: 1px solid var(--hairline); text-align: left; white-space: nowrap; }
.figure, th.figure { text-align: right; }
svg { width: 100%; max-width: 60em; font-size: var(--secondary); background: var(--surface); }
svg text { fill: var(--ink); }
.grid { stroke: var(--grid); }
.seed { fill: var(--a); fill-opacity: 0.55; }
.half_width { stroke: var(--b); stroke-width: 2; }
.mean { stroke: var(--b); stroke-width: 3; }
)";
constexpr const char* kDarkWhereWanted =
    "<script>if (matchMedia('(prefers-color-scheme: dark)').matches) document.documentElement.classList.add('dark')"
    "</script>\n";

}  // namespace

std::string sweep_page(const SweepResult& result) {
  const std::string title = "Sweep of " + escaped(result.run);
  return fmt::format(
      "<!DOCTYPE html>\n"
      "<html lang=\"en\">\n"
      "<head>\n"
      "<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n"
      "<style>\n"
      "{}{}</style>\n"
      "{}</head>\n"
      "<body>\n"
      "<h1>{}</h1>\n"
      "{}<p>Dots: seeds. Vertical stroke: their mean. Horizontal line: its 95 % interval, where there are several "
      "seeds. All figures were measured here.</p>\n"
      "{}<p>{}</p>\n"
      "</body>\n"
      "</html>\n",
      title, page_look(), kStyle, kDarkWhereWanted, title, picture(result), table(result),
      printed(escaped(sweep_notes(result))));
}

}  // namespace moescope
