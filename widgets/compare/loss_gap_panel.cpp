#include "widgets/compare/loss_gap_panel.h"

#include <QPainter>
#include <algorithm>
#include <cmath>
#include <utility>

#include "widgets/compare/verdict_table.h"
#include "widgets/look/fitted_text.h"
#include "widgets/look/tokens.h"
#include "widgets/plots/color_scale.h"

namespace moescope {
namespace {

// Share of the raw gaps that may be outside the axis at either end, so that spikes of the first steps do not determine
// it.
constexpr double kSparedShare = 0.02;
constexpr float kIntervalAlpha = 0.16F;  // of the shade of an interval
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
    if (drawn != Gaps::per_step) curve.values = curve.track->smoothed(edges);
    for (const PyramidBin& bin : drawn == Gaps::per_step ? std::exchange(curve.raw, {}) : std::vector<PyramidBin>())
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
  for (const GapSeries& curve : series_) paintVerdict(painter, curve);
  if (ground_.other_text_from < range().first || ground_.other_text_from > range().last) return;
  const double x = xOf(ground_.other_text_from);
  painter.setPen(QPen(mutedText(palette()), 1, Qt::DashLine));
  painter.drawLine(QPointF(x, plotRect().top()), QPointF(x, plotRect().bottom()));
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

// Paints the sign of the present verdict on the curve, at the step from which on it holds.
void GapPlot::paintVerdict(QPainter& painter, const GapSeries& curve) const {
  const float value = curve.sign_step >= range().first && curve.sign_step <= range().last
                          ? newestAt(curve.values, curve.sign_step)
                          : kNoValue;
  if (!std::isfinite(value)) return;
  const double size = withType(kVerdictSign);
  const QPointF centre(xOf(curve.sign_step), valueAxis().toPixel(value));
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(Qt::NoPen);
  painter.setBrush(QColor(colors(palette()).surface));
  painter.drawEllipse(centre, size / 2 + 1, size / 2 + 1);
  paintSign(painter, QRectF(centre.x() - size / 2, centre.y() - size / 2, size, size), curve.sign, dark());
  painter.restore();
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
    if (drawn_ != Gaps::per_step) line += QString(", smoothed");
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

// What the curves, the lines and the shades are.
QString LossGapPanel::captionOf(const GapPlot::Ground& ground, bool has_sign) const {
  const std::vector<int> places = judged_->candidates();
  const bool has_interval =
      std::ranges::any_of(places, [this](int place) { return std::isfinite(judged_->conclusion(place).half_width); });
  const QString seeds = judged_->isOverSeeds() ? " of " + judged_->seedText() : QString();
  QStringList marks;
  if (!ground.judged.empty()) marks << QString("grey: compared steps") << QString("dotted: mean gap") + seeds;
  if (has_interval) marks << QString("shaded: 95 %");
  if (has_sign) marks << QString("sign: verdict since then");
  if (ground.other_text_from >= 0)
    marks << QString("dashed: different text from step %1").arg(formatCount(ground.other_text_from));
  return QString("%1gap to %2, smoothed over %3 steps, nats/token")
             .arg(seeds.isEmpty() ? "" : "curves: the last seed; ", judged_->baselineLetter())
             .arg(std::lround(1 / (1 - kGapFactor))) +
         (marks.isEmpty() ? QString() : QString(" (%1)").arg(marks.join(QStringLiteral(", "))));
}

void LossGapPanel::refill() {
  if (plot_->showsNotice(judged_->update())) return;
  shown_->setVisible(!onTheSameTexts(*selection_));
  std::vector<GapSeries> series;
  for (int run = 0; run < std::ssize(selection_->histories()); ++run) {
    if (run == judged_->baseline()) continue;
    const Conclusion& c = judged_->conclusion(run);
    series.push_back({.track = &judged_->track(run),
                      .letter = letterOf(run),
                      .name = runName(*selection_, run),
                      .color = runColor(*selection_, run),
                      .mean = c.gap,
                      .half_width = selection_->isNoiseTwin(run) ? kNoValue : c.half_width,
                      .past = judged_->past(run),
                      .sign = signOf(c)});
    if (const auto& past = series.back().past; !past.empty() && verdict_word(c) <= VerdictWord::better)
      series.back().sign_step = c.held_from > 0 ? c.held_from : past.back().steps.first;
  }
  const auto gaps = shown_->currentIndex() == 1 ? GapPlot::Gaps::both : GapPlot::Gaps::smoothed;
  const bool has_sign = std::ranges::any_of(series, [](const GapSeries& run) { return run.sign_step >= 0; });
  // Batches of text have no order, so they are not smoothed.
  plot_->setCaption(onTheSameTexts(*selection_) ? QString("nats/token, by batch of text")
                                                : captionOf(ground(), has_sign));
  plot_->setSeries(std::move(series), ground(), onTheSameTexts(*selection_) ? GapPlot::Gaps::per_step : gaps);
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

// Where the interval of a run is if it is on one side of the edges of the band, as in Verdicts: "above the band, only
// since step 276"; else the verdict: "not told apart".
QString LossGapPanel::sideOf(const Conclusion& c) {
  const VerdictWord word = verdict_word(c);
  if (word > VerdictWord::better) return QString::fromStdString(verdict_text(word));
  const char* sides[] = {"inside", "above", "below"};  // good enough, worse, better
  return sides[static_cast<int>(word)] + QStringLiteral(" the band") + QString::fromStdString(late_text(c));
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

// "Mean gap B +0.0093 \u00b1 0.0045, C +0.036 \u00b1 0.018; B and C are above the band". The mean gap is what the
// verdict is about.
Panel::Answer LossGapPanel::answer() const {
  if (onTheSameTexts(*selection_)) return answerOnTexts();
  if (!plot_->notice().isEmpty() || is_missing(judged_->matters())) return {};
  std::vector<std::pair<QString, QStringList>> sides;  // where intervals are, and those of which runs
  QStringList long_texts, short_texts, gaps;
  for (const int place : judged_->candidates()) {
    const QString letter = runLetter(*selection_, place);
    const Conclusion& c = judged_->conclusion(place);
    if (const QStringList texts = otherTexts(place); !texts.isEmpty()) {
      long_texts << texts.front();
      short_texts << texts.back();
      continue;
    }
    if (std::isfinite(c.gap))
      gaps << letter + QLatin1Char(' ') + (is_missing(c.half_width) ? signedGap(c.gap) : gapText(c));
    const QString side = sideOf(c);
    auto known = std::ranges::find(sides, side, &std::pair<QString, QStringList>::first);
    if (known == sides.end()) known = sides.insert(known, {side, {}});
    known->second << letter;
  }
  QStringList side_texts;
  for (const auto& [side, letters] : sides)
    side_texts << listed(letters) + (letters.size() == 1 ? " is " : " are ") + side;
  QString seeds = judged_->seedText();
  if (!seeds.isEmpty()) seeds = seeds.left(1).toUpper() + seeds.mid(1) + ": ";
  const QString against =
      seeds + (judged_->baseline() == 0 ? QString() : QString("Against %1: ").arg(judged_->baselineLetter()));
  const QStringList means = gaps.isEmpty() ? gaps : QStringList{QString("Mean gap ") + gaps.join(QStringLiteral(", "))};
  QStringList forms;
  for (const QStringList& parts :
       {means + side_texts + long_texts, side_texts + long_texts, side_texts + short_texts, side_texts})
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
    const bool is_over_seeds = judged_->isOverSeeds() && !selection_->isNoiseTwin(place);
    const std::string run = runLabel(*selection_, place).toStdString(),
                      loss = loss_words(runs.back().conclusion->loss) +
                             (is_over_seeds ? " over " + judged_->seedText().toStdString() : std::string()),
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
