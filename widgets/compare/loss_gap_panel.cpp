#include "widgets/compare/loss_gap_panel.h"

#include <QPainter>
#include <algorithm>
#include <cmath>
#include <utility>

#include "widgets/compare/verdict_table.h"
#include "widgets/look/fitted_text.h"
#include "widgets/look/sign.h"
#include "widgets/look/tokens.h"
#include "widgets/plots/color_scale.h"

namespace moescope {
namespace {

constexpr std::int64_t kLastingSteps = 5;  // steps on one side of the band until it is named
// Share of the raw gaps that may be outside the axis at either end, so that spikes of the first steps do not determine
// it.
constexpr double kSparedShare = 0.02;
constexpr double kIntervalAlpha = 0.16;  // of the shade of an interval
constexpr int kVerdictSign = 12;         // size of the sign of a verdict on a curve

QString signedGap(double value) {
  if (!std::isfinite(value)) return QStringLiteral("–");
  const QString digits = QString::number(value, 'f', std::abs(value) < 0.1 ? 4 : 3);
  if (digits.toDouble() == 0) return QStringLiteral("0");
  const QString text = withMinus(digits);
  return value > 0 ? QLatin1Char('+') + text : text;
}

}  // namespace

GapPlot::GapPlot(Selection* selection, QWidget* parent) : TimeAxisPlot(selection, parent) {
  legend_rows_ = 1;
}

int GapPlot::bins() const {
  const auto pixels = static_cast<std::int64_t>(plotRect().width() * devicePixelRatioF());
  return to_int(std::clamp<std::int64_t>(range().size(), 1, std::max<std::int64_t>(1, pixels)));
}

void GapPlot::setSeries(std::vector<GapSeries> series, const Ground& ground, Gaps drawn) {
  series_ = std::move(series);
  by_tokens_ = selection_->isByTokens();
  ground_ = ground;
  drawn_ = drawn;
  chooseEnds();  // done first, since the width of the plot depends on it
  for (GapSeries& curve : series_) {
    const std::vector<std::int64_t> edges = selection_->edgesOf(*curve.track->a(), slice_edges(range(), bins()));
    if (drawn != Gaps::smoothed) curve.raw = curve.track->series(edges);
    if (drawn != Gaps::each_step) curve.values = curve.track->smoothed(edges);
    for (const PyramidBin& bin : drawn == Gaps::each_step ? std::exchange(curve.raw, {}) : std::vector<PyramidBin>())
      curve.values.push_back(bin.finite > 0 ? bin.mean() : kNoValue);
    // Losses on different text have no gap.
    for (std::size_t bin = 0; bin < curve.values.size() && ground.other_text_from >= 0; ++bin) {
      const double half_bin = 0.5 * range().size() / curve.values.size();
      if (centreOf(bin, curve.values.size()) + half_bin < static_cast<double>(ground.other_text_from)) continue;
      curve.values[bin] = kNoValue;
      if (bin < curve.raw.size()) curve.raw[bin] = {};
    }
  }
  chooseValueRange();
}

// Reserves room for the longest text at an end of a curve, so that the plot keeps its width while the values change.
void GapPlot::chooseEnds() {
  const QFontMetrics metrics(semibold(font()));
  int widest = 0;
  for (const GapSeries& gap_series : series_)
    widest = std::max(widest, metrics.horizontalAdvance(gap_series.letter + QStringLiteral(" +0.00000")));
  ends_ = widest + kSpace12 <= width() / 3 && to_int(series_.size()) * metrics.height() <= height() / 2;
  right_margin_ = ends_ ? widest + kSpace12 : kSpace12;
}

// Chooses a range with all gaps of the curves, nearly all gaps behind the curves, and the band.
void GapPlot::chooseValueRange() {
  double low = 0, high = 0;
  const auto take = [&](double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  };
  for (const GapSeries& curve : series_) {
    for (const float value : curve.values) take(value);
    take(curve.mean);
    take(curve.mean + curve.half_width);
    take(curve.mean - curve.half_width);
    std::vector<float> raw;
    for (const PyramidBin& bin : curve.raw)
      if (bin.finite > 0) raw.insert(raw.end(), {bin.min, bin.max});
    if (raw.empty()) continue;
    std::ranges::sort(raw);
    const auto spared = static_cast<std::size_t>(kSparedShare * raw.size());
    take(raw[spared]);
    take(raw[raw.size() - 1 - spared]);
  }
  take(ground_.matters);
  take(-ground_.matters);
  if (low == 0 && high == 0) {
    low = -1e-3;
    high = 1e-3;
  }
  const ValueRange next = niceRange(low, high, false);
  const bool holds = values_.low <= next.low && values_.high >= next.high;
  if (!holds || next.high - next.low < 0.7 * (values_.high - values_.low)) values_ = next;
}

double GapPlot::centreOf(std::size_t bin, std::size_t bins) const {
  const double per_bin = range().size() / static_cast<double>(bins);
  return range().first - 0.5 + (bin + 0.5) * per_bin;
}

std::size_t GapPlot::binAt(std::int64_t step) const {
  const std::size_t bins = series_.front().values.size();
  const std::size_t bin = (step - range().first) * static_cast<std::int64_t>(bins) / range().size();
  return std::min(bin, bins - 1);
}

std::int64_t GapPlot::shownStep() const {
  return std::clamp(selection_->hoverStep() >= 0 ? selection_->hoverStep() : selection_->step(), range().first,
                    range().last);
}

void GapPlot::paintStatic(QPainter& painter) {
  const QRect plot = plotRect();
  paintGround(painter);
  paintStepAxis(painter);
  std::vector<Tick> ticks = linearTicks(values_.low, values_.high, std::max(2, plot.height() / withType(36)));
  for (Tick& tick : ticks)
    if (tick.value > 0) tick.label.prepend(QLatin1Char('+'));
  paintLeftAxis(painter, valueAxis(), ticks, caption_);
  const int zero = to_int(std::lround(valueAxis().toPixel(0)));
  painter.setPen(mutedText(palette()));
  painter.drawLine(plot.left(), zero, plot.right(), zero);
}

// Paints the judged steps and the band that is too small to matter, behind the grid.
void GapPlot::paintGround(QPainter& painter) const {
  const Colors& c = colors(palette());
  const QRect plot = plotRect();
  const StepRange judged{std::max(ground_.judged.first, range().first), std::min(ground_.judged.last, range().last)};
  if (!judged.empty()) {
    const double left_x = xOf(judged.first), right = xOf(judged.last);
    painter.fillRect(QRectF(left_x, plot.top(), right - left_x, plot.height()), QColor(c.sunken));
  }
  if (!std::isfinite(ground_.matters)) return;
  const double matters = ground_.matters;
  const double top = valueAxis().toPixel(matters), bottom = valueAxis().toPixel(-matters);
  painter.fillRect(QRectF(plot.left(), top, plot.width(), bottom - top), QColor(c.good_soft));
  painter.setPen(QColor(c.good));
  for (const double y : {top, bottom}) painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y));
}

void GapPlot::paintData(QPainter& painter) {
  painter.setClipRect(plotRect().adjusted(0, -1, 1, 1));
  paintMeans(painter);
  for (const GapSeries& curve : series_) paintCurve(painter, curve);
  for (const GapSeries& curve : series_) paintVerdicts(painter, curve);
  const StepRange judged{std::max(ground_.judged.first, range().first), std::min(ground_.judged.last, range().last)};
  const bool has_interval =
      std::ranges::any_of(series_, [](const GapSeries& run) { return std::isfinite(run.half_width); });
  if (!judged.empty())
    paintNote(painter, judged,
              {QString("compared: %1 (dotted: mean gap%2)")
                   .arg(selection_->rangeText(ground_.judged), has_interval ? ", shaded: its 95 % interval" : ""),
               QString("dotted: mean gap") + (has_interval ? ", shaded: 95 %" : ""), QString("compared")});
  const StepRange other{std::max(ground_.other_text_from, range().first), range().last};
  if (ground_.other_text_from < 0 || other.empty()) return;
  painter.setPen(QPen(mutedText(palette()), 1, Qt::DashLine));
  painter.drawLine(QPointF(xOf(other.first), plotRect().top()), QPointF(xOf(other.first), plotRect().bottom()));
  paintNote(
      painter, other,
      {QString("different text from step %1").arg(formatCount(ground_.other_text_from)), QString("different text")});
}

// Writes what these steps are, at the highest place without a line.
void GapPlot::paintNote(QPainter& painter, StepRange steps, const QStringList& forms) const {
  const int left_x = static_cast<int>(xOf(steps.first)) + kSpace4, room = static_cast<int>(xOf(steps.last)) - left_x;
  const QString words = fittingText(forms, fontMetrics(), room);
  painter.setPen(mutedText(palette()));
  QRect place(left_x, plotRect().top() + 2, fontMetrics().horizontalAdvance(words), fontMetrics().height());
  while (isCrossed(place) && plotRect().contains(place)) place.translate(0, place.height() / 2);
  if (plotRect().contains(place)) painter.drawText(place, Qt::AlignLeft, words);
}

// True if a curve, a mean gap, the line of zero or an edge of the band is in `place` or touches it.
bool GapPlot::isCrossed(const QRect& place) const {
  const Axis axis = valueAxis();
  const QRectF room = QRectF(place).adjusted(0, -2, 0, 2);
  const auto has_level = [&](float level) {
    const double y = axis.toPixel(level);
    return y >= room.top() && y <= room.bottom();
  };
  if (has_level(-ground_.matters) || has_level(0) || has_level(ground_.matters)) return true;
  return std::ranges::any_of(series_, [&](const GapSeries& curve) {
    if (has_level(curve.mean)) return true;
    std::optional<QPointF> last;
    for (std::size_t bin = 0; bin < curve.values.size(); ++bin) {
      if (!std::isfinite(curve.values[bin])) continue;
      const QPointF at(xOf(centreOf(bin, curve.values.size())), axis.toPixel(curve.values[bin]));
      if (QRectF(last.value_or(at), at).normalized().adjusted(0, 0, 1, 1).intersects(room)) return true;
      last = at;
    }
    return false;
  });
}

void GapPlot::paintCurve(QPainter& painter, const GapSeries& curve) const {
  const Axis axis = valueAxis();
  const QColor strong = seriesColor(curve.color, dark());
  std::vector<QLineF> spans;
  std::vector<QPointF> raw, points;
  for (std::size_t bin = 0; bin < curve.raw.size(); ++bin) {
    const double x = xOf(centreOf(bin, curve.raw.size()));
    const PyramidBin& slice = curve.raw[bin];
    if (slice.finite == 0) continue;
    const double top = axis.toPixel(slice.max), bottom = axis.toPixel(slice.min);
    if (bottom - top > 1) spans.emplace_back(x, top, x, bottom);
    raw.emplace_back(x, axis.toPixel(slice.mean()));
  }
  for (std::size_t bin = 0; bin < curve.values.size(); ++bin)
    if (std::isfinite(curve.values[bin]))
      points.emplace_back(xOf(centreOf(bin, curve.values.size())), axis.toPixel(curve.values[bin]));
  painter.setPen(QPen(rawColor(strong), 0));
  painter.drawLines(spans.data(), to_int(spans.size()));
  drawCurve(painter, raw, false);
  painter.setPen(QPen(strong, 0, seriesLine(curve.color)));
  drawCurve(painter, points, true);
}

// Paints the mean gap of each run over the judged steps, and its interval.
void GapPlot::paintMeans(QPainter& painter) const {
  if (ground_.judged.empty()) return;
  const double first_x = xOf(ground_.judged.first), last_x = xOf(ground_.judged.last);
  for (const GapSeries& run : series_) {
    if (!std::isfinite(run.mean)) continue;
    QColor color = seriesColor(run.color, dark());
    painter.setPen(QPen(color, 1, Qt::DotLine));
    const double y = valueAxis().toPixel(run.mean);
    painter.drawLine(QPointF(first_x, y), QPointF(last_x, y));
    if (!std::isfinite(run.half_width)) continue;
    color.setAlphaF(kIntervalAlpha);
    const double top = valueAxis().toPixel(run.mean + run.half_width);
    painter.fillRect(QRectF(first_x, top, last_x - first_x, 2 * (y - top)), color);
  }
}

// Paints the sign of a verdict on the curve at the step from which on it was given, and of the one that replaced it.
void GapPlot::paintVerdicts(QPainter& painter, const GapSeries& curve) const {
  const double size = withType(kVerdictSign);
  for (std::size_t i = 0; i < curve.past.size(); ++i) {
    const StepRange steps = curve.past[i].steps;
    const bool was_given = i > 0 && curve.past[i - 1].word <= VerdictWord::better;
    if (!(curve.past[i].word <= VerdictWord::better || was_given) || steps.first < range().first ||
        steps.first > range().last)
      continue;
    const float value = newestAt(curve.values, steps.first);
    if (!std::isfinite(value)) continue;
    const QPointF centre(xOf(steps.first), valueAxis().toPixel(value));
    painter.save();
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(Qt::NoPen);
    painter.setBrush(QColor(colors(palette()).surface));
    painter.drawEllipse(centre, size / 2 + 1, size / 2 + 1);
    painter.restore();
    paintSign(painter, QRectF(centre.x() - size / 2, centre.y() - size / 2, size, size), signOf(curve.past[i].word),
              dark());
  }
}

void GapPlot::paintOverlay(QPainter& painter) {
  paintEnds(painter);
  TimeAxisPlot::paintOverlay(painter);
}

QRegion GapPlot::hoverRegion() const {
  int left_x = plotRect().right() + 2;
  for (const GapSeries& curve : series_) left_x = std::min(left_x, endOf(curve));
  return TimeAxisPlot::hoverRegion() | QRect(QPoint(left_x, 0), rect().bottomRight());
}

// Returns the value at the bin of `step`, or the newest value before it, since a run may be a step behind.
float GapPlot::newestAt(const std::vector<float>& values, std::int64_t step) const {
  for (std::size_t bin = binAt(step) + 1; bin-- > 0;)
    if (std::isfinite(values[bin])) return values[bin];
  return kNoValue;
}

// Left edge of the name of a curve: beside the plot, or behind a curve that ends before.
int GapPlot::endOf(const GapSeries& curve) const {
  const int right_of_plot = plotRect().right() + kSpace8;
  const auto last =
      std::find_if(curve.values.rbegin(), curve.values.rend(), [](float gap) { return std::isfinite(gap); });
  if (last == curve.values.rend()) return right_of_plot;
  const auto bin = static_cast<std::size_t>(curve.values.rend() - last) - 1;
  const int behind = static_cast<int>(xOf(centreOf(bin, curve.values.size()))) + kSpace8;
  return behind + fontMetrics().horizontalAdvance("A +0.0000") < plotRect().right() ? behind : right_of_plot;
}

// Paints names and values beside the curves, at the height of the values, moved apart if these are close to each other.
void GapPlot::paintEnds(QPainter& painter) const {
  if (!ends_ || series_.empty() || range().empty()) return;
  const QFont usual = painter.font(), strong = semibold(usual);
  const QFontMetrics metrics(strong);
  const int line = metrics.height() - 2;
  struct End {
    const GapSeries* curve;
    double y;
  };
  std::vector<End> ends;
  for (const GapSeries& curve : series_) {
    const float value = newestAt(curve.values, shownStep());
    if (std::isfinite(value)) ends.push_back({&curve, valueAxis().toPixel(value)});
  }
  std::ranges::stable_sort(ends, {}, &End::y);
  std::vector<double> places;
  for (const End& end : ends) places.push_back(end.y);
  places = spreadApart(places, line, plotRect().top() + 2, plotRect().bottom());
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const GapSeries* curve = ends[i].curve;
    const int baseline = static_cast<int>(std::lround(places[i])) + metrics.ascent() / 2 - 1, left_x = endOf(*curve);
    painter.setFont(strong);
    painter.setPen(seriesColor(curve->color, dark()));
    painter.drawText(left_x, baseline, curve->letter);
    painter.setFont(usual);
    painter.setPen(palette().text().color());
    painter.drawText(left_x + metrics.horizontalAdvance(curve->letter), baseline,
                     QLatin1Char(' ') + signedGap(newestAt(curve->values, shownStep())));
  }
}

QStringList GapPlot::readoutAt(QPoint position) const {
  if (series_.empty() || range().empty()) return {};
  const std::int64_t step = stepAt(position.x());
  QStringList lines{stepText(step)};
  if (ground_.other_text_from >= 0 && step >= ground_.other_text_from) return lines << "different text: no gap";
  for (const GapSeries& curve : series_) {
    QString line = QString("%1 %2: gap %3").arg(curve.letter, curve.name, signedGap(newestAt(curve.values, step)));
    if (drawn_ != Gaps::each_step) line += QString(", smoothed");
    if (!curve.raw.empty() && curve.raw[binAt(step)].finite > 0)
      line += QString(", at this step %1").arg(signedGap(curve.raw[binAt(step)].mean()));
    for (const PastVerdict& verdict : curve.past)
      if (step >= verdict.steps.first && step <= verdict.steps.last)
        line += QString(", verdict: ") + QString::fromStdString(verdict_text(verdict.word));
    lines << line;
  }
  if (step < ground_.judged.first || step > ground_.judged.last) return lines;
  lines << QString("one of the judged steps");
  for (const GapSeries& run : series_)
    if (std::isfinite(run.mean))
      lines << QString("%1: mean of the judged steps %2").arg(run.letter, signedGap(run.mean)) +
                   (std::isfinite(run.half_width) ? QString(" ± ") + QString::number(run.half_width, 'f', 4)
                                                  : QString());
  return lines;
}

LossGapPanel::LossGapPanel(Selection* selection, JudgedRuns* judged, QWidget* parent)
    : Panel(selection, "Loss gap", Provenance::measured_here, parent), judged_(judged) {
  plot_ = new GapPlot(selection, this);
  plot_->refill = [this] { refill(); };
  connect(judged_, &JudgedRuns::changed, plot_, &PlotFrame::markDirty);
  shown_ = makeChoice({"smoothed", "every step"}, "Steps shown", "The smoothed gap, or the gap of every step, too");
  connect(shown_, &QComboBox::currentIndexChanged, plot_, &PlotFrame::markDirty);
  addControl(shown_);
  showAnswers();
  addBody(plot_);
  keepState("every_step", shown_);
}

// Marks no steps for checkpoints: all their batches are judged.
GapPlot::Ground LossGapPanel::ground() const {
  GapPlot::Ground ground{judged_->matters(), {}};
  if (onTheSameTexts(*selection_)) return ground;
  for (const int place : judged_->candidates()) {
    const Conclusion& c = judged_->conclusion(place);
    if (ground.judged.empty() && !is_missing(c.gap)) ground.judged = c.steps;
    if (ground.other_text_from < 0) ground.other_text_from = c.other_text_from;
  }
  return ground;
}

void LossGapPanel::refill() {
  plot_->setNotice(judged_->update());
  if (!plot_->notice().isEmpty()) return;
  shown_->setVisible(!onTheSameTexts(*selection_));
  // Batches of text have no order, so they are not smoothed.
  plot_->setCaption(onTheSameTexts(*selection_) ? QString("nats/token, by batch of text")
                                                : QString("gap to %1, smoothed over %2 steps, nats/token")
                                                      .arg(judged_->baselineLetter())
                                                      .arg(std::lround(1 / (1 - kGapFactor))));
  std::vector<GapSeries> series;
  for (int run = 0; run < std::ssize(selection_->histories()); ++run)
    if (run != judged_->baseline())
      series.push_back({.track = &judged_->track(run),
                        .letter = letterOf(run),
                        .name = runName(*selection_, run),
                        .color = runColor(*selection_, run),
                        .mean = judged_->conclusion(run).gap,
                        .half_width = selection_->isNoiseTwin(run) ? kNoValue : judged_->conclusion(run).half_width,
                        .past = selection_->isNoiseTwin(run) ? std::vector<PastVerdict>() : judged_->past(run)});
  const auto gaps = shown_->currentIndex() == 1 ? GapPlot::Gaps::both : GapPlot::Gaps::smoothed;
  plot_->setSeries(std::move(series), ground(), onTheSameTexts(*selection_) ? GapPlot::Gaps::each_step : gaps);
}

// "B: +0.0037 \u00b1 0.0067 nats/token". Checkpoints have no first and last steps, only batches of text.
Panel::Answer LossGapPanel::answerOnTexts() const {
  QStringList sentences;
  for (const int place : judged_->candidates()) {
    const Conclusion& c = judged_->conclusion(place);
    if (is_missing(c.gap)) continue;
    sentences << QString("%1: %2").arg(runLetter(*selection_, place), gapText(c));
  }
  if (sentences.isEmpty()) return {};
  const QString gaps = sentences.join(QStringLiteral("; "));
  return {{}, {QString("%1 nats/token, mean over the batches of text").arg(gaps), gaps}};
}

// Noise twins are compared with run A, whichever run is the baseline.
QString LossGapPanel::letterOf(int place) const {
  const QString letter = runLetter(*selection_, place);
  return judged_->baseline() != 0 && selection_->isNoiseTwin(place) ? letter + QStringLiteral(" \u2212 A") : letter;
}

// "B is above the band, only since step 276" by the interval of its mean gap, with the words of the verdict. A run
// without an interval "is above the band since step 700, below it before" by its smoothed gap if the side has lasted;
// one whose smoothed gap is inside is "outside the band" by its mean gap. The last form is short.
QStringList LossGapPanel::sideTexts(int place) const {
  const GapTrack& track = judged_->track(place);
  const float band = judged_->matters();
  const QString letter = runLetter(*selection_, place);
  const Conclusion& c = judged_->conclusion(place);
  if (!is_missing(c.half_width)) {
    const QString of_mean = letter + (c.gap > 0 ? " is above the band" : " is below the band");
    return {of_mean + QString::fromStdString(c.verdict == Verdict::unclear ? std::string() : late_text(c)), of_mean};
  }
  const auto first_step = track.out_since(band, judged_->lastStep());
  if (!first_step || track.count({*first_step, judged_->lastStep()}) < kLastingSteps)
    return QStringList(2, letter + " is outside the band");
  const std::size_t first = track.place(*first_step);
  const auto side_at = [&](std::size_t i) { return track.smooth()[i] > 0 ? QString("above") : QString("below"); };
  const QString side = QString("%1 is %2 the band").arg(letter, side_at(first));
  const bool has_changed = first > 0 && std::fabs(track.smooth()[first - 1]) > band;
  return {letter +
              QString("'s smoothed gap is %1 the band since step %2").arg(side_at(first), formatCount(*first_step)) +
              (has_changed ? QString(", %1 it before").arg(side_at(first - 1)) : QString()),
          side};
}

// For a run that cannot be judged because it reads different text: "B: mean gap -0.0064 in steps 360 to 680, different
// text from step 700"; else empty.
QStringList LossGapPanel::otherTexts(int place) const {
  const Conclusion& c = judged_->conclusion(place);
  if (c.other_text_from < 0 || verdict_word(c) != VerdictWord::not_judged) return {};
  const QString letter = runLetter(*selection_, place) + QStringLiteral(": ");
  const QString other = QString("different text from step %1").arg(formatCount(c.other_text_from));
  if (is_missing(c.gap)) return {letter + other};
  return {letter + QString("mean gap %1 in %2, ").arg(signedGap(c.gap), selection_->rangeText(c.steps)) + other,
          letter + other};
}

// Returns "B is above the band since step 118, not told apart: gaps below 0.0031 may be chance" for a run whose gap is
// outside the band although it is not called worse or better, from long to short.
QStringList LossGapPanel::undecidedTexts(int place) const {
  const Conclusion& c = judged_->conclusion(place);
  const QString word = QString::fromStdString(verdict_text(verdict_word(c)));
  const std::vector<std::string> reasons = verdict_reasons(c);
  const QString reason = reasons.empty() ? QString() : QStringLiteral(": ") + QString::fromStdString(reasons.front());
  const QStringList sides = sideTexts(place);
  return {sides.front() + ", " + word + reason, sides.back() + ", " + word};
}

// "D is above the band since step 118; B and C have a mean gap inside the band". The mean gap is what the
// verdict is about; the smoothed gap says since when a run is outside.
Panel::Answer LossGapPanel::answer() const {
  if (onTheSameTexts(*selection_)) return answerOnTexts();
  const float band = judged_->matters();
  if (!plot_->notice().isEmpty() || is_missing(band)) return {};
  QStringList outside, inside, sentences, undecided, short_undecided, gaps;
  for (const int place : judged_->candidates()) {
    const QString letter = runLetter(*selection_, place);
    const Conclusion& c = judged_->conclusion(place);
    const VerdictWord word = verdict_word(c);
    const float gap = c.gap;
    if (std::isfinite(c.half_width)) gaps << letter + QLatin1Char(' ') + gapText(c);
    QStringList texts = otherTexts(place);
    if (texts.isEmpty() &&
        (is_missing(gap) ? !judged_->track(place).out_since(band, judged_->lastStep()) : std::abs(gap) <= band)) {
      inside << letter;
      continue;
    }
    if (texts.isEmpty() && (word == VerdictWord::worse || word == VerdictWord::better)) {
      outside << letter;
      sentences << sideTexts(place).front();
      continue;
    }
    if (texts.isEmpty()) texts = undecidedTexts(place);
    undecided << texts.front();
    short_undecided << texts.back();
  }
  QStringList within, stays;
  if (!inside.isEmpty())
    within << listed(inside) + (inside.size() == 1 ? " has" : " have") + " a mean gap inside the band";
  if (!outside.isEmpty()) stays << listed(outside) + (outside.size() == 1 ? " is" : " are") + " outside the band";
  const QString against = judged_->baseline() == 0 ? QString() : QString("Against %1: ").arg(judged_->baselineLetter());
  QStringList forms;
  const QStringList intervals =
      gaps.isEmpty() ? gaps : QStringList{QString("Mean gap ") + gaps.join(QStringLiteral(", "))};
  for (const QStringList& parts :
       {intervals + sentences + undecided + within, intervals + stays + short_undecided + within,
        sentences + undecided + within, stays + short_undecided + within, stays + short_undecided,
        stays.isEmpty() ? within : stays})
    if (!parts.isEmpty()) forms << against + parts.join(QStringLiteral("; "));
  return {{}, forms};
}

ValueTable LossGapPanel::table() const {
  std::vector<ValueColumn> columns{{"step"}};
  if (!judged_->update().isEmpty()) return ValueTable(std::move(columns));
  const auto& histories = selection_->histories();
  const std::vector<std::int64_t> steps = histories[0]->steps_in(selection_->range());
  if (steps.empty()) return ValueTable(std::move(columns));
  const std::vector<std::int64_t> edges = edges_of(steps);
  struct RunColumns {
    std::vector<PyramidBin> gaps;
    std::vector<float> smoothed_gaps;
    const Conclusion* conclusion;
  };
  std::vector<RunColumns> runs;
  std::vector<ValueColumn> judged_columns;
  for (int place = 0; place < std::ssize(histories); ++place) {
    if (place == judged_->baseline()) continue;
    const GapTrack& track = judged_->track(place);
    runs.push_back({track.series(edges), track.smoothed(edges), &judged_->conclusion(place)});
    const std::string run = runLabel(*selection_, place).toStdString(), loss = loss_words(runs.back().conclusion->loss),
                      gap = run + " minus " +
                            (selection_->isNoiseTwin(place) ? "A" : judged_->baselineLetter().toStdString());
    columns.push_back({gap + ", cross-entropy", "nats/token"});
    columns.push_back({gap + ", smoothed", "nats/token"});
    judged_columns.push_back({gap + ", mean " + loss + " of the judged steps", "nats/token"});
    judged_columns.push_back({run + ", half width of its 95 % interval", "nats/token"});
  }
  columns.insert(columns.end(), judged_columns.begin(), judged_columns.end());
  ValueTable table(std::move(columns));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::vector<TableValue> row{steps[i]};
    for (const RunColumns& run : runs)
      row.insert(row.end(), {table_value(run.gaps[i]), unless_nan(run.smoothed_gaps[i])});
    for (const RunColumns& run : runs) {
      const Conclusion& c = *run.conclusion;
      const bool judged = steps[i] >= c.steps.first && steps[i] <= c.steps.last;
      row.insert(row.end(), {unless_nan(judged ? c.gap : NAN), unless_nan(judged ? c.half_width : NAN)});
    }
    table.add_row(row);
  }
  return table;
}

QString LossGapPanel::explain() const {
  return explanation({QString::number(std::lround(1 / (1 - kGapFactor)))});
}

}  // namespace moescope
