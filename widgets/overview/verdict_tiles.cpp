#include "widgets/overview/verdict_tiles.h"

#include <QPainter>
#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "widgets/look/counted_text.h"
#include "widgets/look/fitted_text.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/explain_card.h"
#include "widgets/plots/axis.h"
#include "widgets/plots/color_scale.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

constexpr double kCurveShare = 0.44;
constexpr int kMinCurve = 64;       // width that a curve needs
constexpr int kCurveEndRadius = 3;  // of the dot at the end of a curve

int advance(Type type, const QString& text, bool bold = false) {
  return QFontMetrics(typeFont(type, bold)).horizontalAdvance(text);
}

QString atLayer(int layer) {
  return QString("layer %1").arg(layer);
}

// Returns the forms of "layer 1, expert 3 · by chance 0.02 in 5 loads": all, without the expert, without the value of
// chance.
QStringList contexts(const QString& place, const QString& shorter, const QString& comparison) {
  const QString dot = QStringLiteral(" \u00b7 ");
  QStringList texts;
  if (!comparison.isEmpty()) texts << place + dot + comparison << shorter + dot + comparison;
  return texts << place << shorter;
}

// "by chance 0.02 in 5 loads": a single batch has more.
QString chanceText(double chance, const QString& window) {
  if (!std::isfinite(chance)) return {};
  const bool small = chance < 0.01;
  return QString("chance alone: %1 in %2").arg(QString::number(chance, small ? 'g' : 'f', small ? 1 : 2), window);
}

TileContent nothing(const QString& reason) {
  return {.value = QStringLiteral("\u2013"), .context = {reason}};
}

}  // namespace

VerdictTile::VerdictTile(const QString& name, QWidget* parent) : QAbstractButton(parent) {
  setText(name);
  setAccessibleName(name);
  setCursor(Qt::PointingHandCursor);
  setFocusPolicy(Qt::TabFocus);
}

void VerdictTile::setContent(TileContent content) {
  content_ = std::move(content);
  QString whole = (content_.value + QLatin1Char(' ') + content_.unit).trimmed();
  if (!content_.steps.isEmpty()) whole += QStringLiteral(", ") + content_.steps;
  whole += QStringLiteral(", ") + content_.context.value(0);
  for (const TileContent::Beside& run : content_.other_runs)
    whole += QStringLiteral("; %1: %2, %3").arg(run.letter, run.value, run.steps);
  setAccessibleDescription(whole);
  setToolTip(text() + QStringLiteral(": ") + whole);
  update();
}

QSize VerdictTile::sizeHint() const {
  return {leastWidth(), withType(kTileHeight, fontMetrics())};
}

int VerdictTile::leastWidth() const {
  int text = advance(Type::caption, this->text());
  text = std::max(text, advance(Type::figure, content_.value, true) + kSpace4 + advance(Type::body, content_.unit));
  if (!content_.context.isEmpty()) text = std::max(text, advance(Type::caption, content_.context.back()));
  return text + 2 * kSpace12;
}

int VerdictTile::curveWidth() const {
  const int curve = std::min(static_cast<int>(kCurveShare * width()), width() - leastWidth());
  return content_.curve.size() > 1 && curve >= kMinCurve ? curve - kSpace12 : 0;
}

void VerdictTile::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  const Colors& c = colors(palette());
  if (underMouse()) painter.fillRect(rect(), QColor(c.sunken));
  if (x() > 0) {
    painter.setPen(QColor(c.hairline));
    painter.drawLine(QPointF(0.5, kSpace8), QPointF(0.5, height() - kSpace8));
  }
  const int curve = curveWidth();
  paintTexts(painter, width() - 2 * kSpace12 - (curve > 0 ? curve + kSpace8 : 0));
  if (curve > 0)
    paintCurve(painter,
               QRectF(width() - kSpace12 - curve, kSpace8, curve, height() - 2 * kSpace8).adjusted(0, 3, -4, -3));
  if (showsFocus(*this))
    drawRounded(painter, rect().adjusted(1, 1, -1, -1), kRadiusControl, Qt::transparent, QColor(c.accent), kFocusLine);
}

// Paints three lines in the middle of the height.
void VerdictTile::paintTexts(QPainter& painter, int room) const {
  const Colors& c = colors(palette());
  const QFont caption = typeFont(Type::caption), figure = typeFont(Type::figure, true), body = typeFont(Type::body);
  const QFontMetrics small(caption), large(figure);
  const int lines = 2 * small.height() + large.ascent() + large.descent() / 2;
  int y = (height() - lines) / 2;
  painter.setFont(caption);
  painter.setPen(QColor(c.ink2));
  painter.drawText(QPoint(kSpace12, y + small.ascent()), text());
  y += small.height();
  painter.setFont(figure);
  painter.setPen(QColor(c.ink));
  painter.drawText(QPoint(kSpace12, y + large.ascent()), content_.value);
  const int unit = kSpace12 + large.horizontalAdvance(content_.value) + kSpace4;
  painter.setFont(body);
  painter.setPen(QColor(c.ink2));
  painter.drawText(QPoint(unit, y + large.ascent()), content_.unit);
  const int steps =
      unit + (content_.unit.isEmpty() ? 0 : QFontMetrics(body).horizontalAdvance(content_.unit) + kSpace4);
  paintBeside(painter, QPoint(steps + kSpace4, y + large.ascent()), kSpace12 + room);
  painter.setFont(caption);
  painter.setPen(QColor(c.ink2));
  QStringList step_forms{content_.steps};
  if (content_.steps.contains(QLatin1String(" to "))) step_forms << content_.steps.section(QLatin1Char(' '), 1);
  step_forms << content_.brief_steps;
  if (content_.other_runs.empty())
    painter.drawText(QPoint(steps, y + large.ascent()), fittingText(step_forms, small, kSpace12 + room - steps));
  y += large.ascent() + large.descent() / 2;
  painter.drawText(QPoint(kSpace12, y + small.ascent()), fittingText(content_.context, small, room));
}

// Paints the letters and values of as many other runs as have room.
void VerdictTile::paintBeside(QPainter& painter, QPoint at, int right) const {
  const QFont strong = typeFont(Type::body, true), plain = typeFont(Type::body);
  for (const TileContent::Beside& run : content_.other_runs) {
    const int letter = QFontMetrics(strong).horizontalAdvance(run.letter) + kSpace4,
              value = QFontMetrics(plain).horizontalAdvance(run.value);
    if (at.x() + letter + value > right) return;
    painter.setFont(strong);
    painter.setPen(seriesColor(run.color, isDark(palette())));
    painter.drawText(at, run.letter);
    painter.setFont(plain);
    painter.setPen(QColor(colors(palette()).ink));
    painter.drawText(at + QPoint(letter, 0), run.value);
    at.rx() += letter + value + kSpace8;
  }
}

void VerdictTile::paintCurve(QPainter& painter, const QRectF& place) const {
  const Colors& c = colors(palette());
  std::vector<double> finite;
  std::ranges::copy_if(content_.curve, std::back_inserter(finite), [](double value) { return std::isfinite(value); });
  if (finite.empty()) return;
  if (std::isfinite(content_.chance)) finite.push_back(content_.chance);
  const auto [low, high] = std::ranges::minmax(finite);
  const double base = low, span = std::max(high - low, 1e-9);
  const auto y = [&](double value) { return place.bottom() - (value - base) / span * place.height(); };
  const auto x = [&](std::size_t i) { return place.left() + place.width() * i / (content_.curve.size() - 1); };
  if (std::isfinite(content_.chance)) {
    painter.setPen(QPen(QColor(c.axis), 1, Qt::DashLine));
    painter.drawLine(QPointF(place.left(), y(content_.chance)), QPointF(place.right(), y(content_.chance)));
  }
  const QColor ink = seriesColor(content_.color, isDark(palette()));
  QPolygonF line;
  for (std::size_t i = 0; i < content_.curve.size(); ++i)
    if (std::isfinite(content_.curve[i])) line << QPointF(x(i), y(content_.curve[i]));
  painter.setPen(QPen(ink, kCurveWidth));
  painter.drawPolyline(line);
  painter.setPen(Qt::NoPen);
  painter.setBrush(ink);
  painter.drawEllipse(line.back(), kCurveEndRadius, kCurveEndRadius);
}

VerdictTiles::VerdictTiles(Selection* selection, FindingsWatch* watch, QWidget* parent)
    : QWidget(parent), selection_(selection), watch_(watch) {
  setObjectName("verdict_tiles");
  const QStringList names{"Largest overload (MaxVio)", "Spread of load (CV)", "Entropy of load", "Unused experts"};
  for (int i = 0; i < 4; ++i) {
    tiles_[i] = new VerdictTile(names[i], this);
    connect(tiles_[i], &VerdictTile::clicked, this, [this, i] { openCard(static_cast<Which>(i)); });
  }
  for (auto signal : {&Selection::timeChanged, &Selection::focusChanged})
    connect(selection_, signal, this, [this] {
      if (!selection_->following()) markDirty();
    });
  connect(selection_, &Selection::dataChanged, this, [this] {
    if (!watch_->health(selection_->run())) markDirty();
  });
  connect(watch_, &FindingsWatch::changed, this, &VerdictTiles::markDirty);
  followFont(this, [this] { markDirty(); });
}

QSize VerdictTiles::sizeHint() const {
  return {600, withType(kTileHeight, fontMetrics())};
}

void VerdictTiles::markDirty() {
  dirty_ = true;
  update();
}

// Fills the tiles while painting, so that hidden tiles compute nothing.
void VerdictTiles::paintEvent(QPaintEvent*) {
  if (std::exchange(dirty_, false)) fill();
}

void VerdictTiles::fill() {
  const History* history = selection_->history();
  if (!history) return;
  std::array<TileContent, 4> contents;
  const RouterWindow window = router_window(*history, selection_->windowStep());
  if (window.layers.empty()) {
    contents.fill(nothing(history->steps().empty() ? "no step yet" : "no load of experts"));
  } else {
    contents = {worstContent(overload, window, *history), worstContent(spread, window, *history),
                entropyContent(window, *history), deadContent(window, *history)};
    const int loads = selection_->loadsIn(window.steps);
    for (TileContent& content : contents) {
      content.steps = selection_->windowText(window.steps);
      content.brief_steps = "last " + (loads > 0 ? countedText(loads, "load") : formatCount(window.steps.size()));
      content.color = runColor(*selection_, selection_->run());
    }
    addOthers(contents);
  }
  for (std::size_t i = 0; i < tiles_.size(); ++i) tiles_[i]->setContent(std::move(contents[i]));
  place();
}

// Adds the figures of the other open runs, at their newest step or at the paired one.
void VerdictTiles::addOthers(std::array<TileContent, 4>& contents) const {
  std::array<QString, 3> layers;  // "; B: layer 3; C: layer 2", of all tiles but the last
  for (int run = 0; run < std::ssize(selection_->histories()); ++run) {
    const History& history = *selection_->histories()[run];
    if (run == selection_->run() || history.steps().empty()) continue;
    const RouterWindow window = router_window(history, selection_->shownStepOf(history));
    if (window.layers.empty()) continue;
    const std::array worst{window.worst(&LayerWindow::max_vio), window.worst(&LayerWindow::cv),
                           window.worst(&LayerWindow::entropy)};
    const std::array values{formatValue(worst[overload]->max_vio, 3), formatValue(worst[spread]->cv, 3),
                            QString::number(100 * worst[entropy]->entropy, 'f', 1) + " %",
                            formatCount(window.silent())};
    const QString letter = runLetter(*selection_, run);
    for (std::size_t tile = 0; tile < contents.size(); ++tile)
      contents[tile].other_runs.push_back(
          {letter, values[tile], selection_->rangeText(window.steps), runColor(*selection_, run)});
    for (std::size_t tile = 0; tile < layers.size(); ++tile)
      layers[tile] += QStringLiteral("; %1: %2").arg(letter, atLayer(worst[tile]->layer));
  }
  for (std::size_t tile = 0; tile < layers.size(); ++tile)
    if (QStringList& context = contents[tile].context; !layers[tile].isEmpty())
      context = QStringList{context.front() + layers[tile], context.back() + layers[tile]} + context;
}

std::vector<double> VerdictTiles::curveOf(Which tile, const History& history, int layer, double LayerWindow::*figure) {
  layers_[tile] = layer;
  std::vector<double> values;
  for (const LayerWindow& point : window_track(history, layer, selection_->windowStep()))
    values.push_back(point.layer < 0 ? kNoValue : point.*figure);
  return values;
}

TileContent VerdictTiles::worstContent(Which tile, const RouterWindow& window, const History& history) {
  const auto figure = tile == overload ? &LayerWindow::max_vio : &LayerWindow::cv;
  const double chance = tile == overload ? window.chance_max_vio : window.chance_cv;
  const LayerWindow& worst = *window.worst(figure);
  const QString layer = atLayer(worst.layer);
  const int loads = selection_->loadsIn(window.steps);
  const QString place =
      tile == overload && worst.max_vio > 0 ? QString("%1, expert %2").arg(layer).arg(worst.fullest) : layer;
  return {.value = formatValue(worst.*figure, 3),
          .context = contexts(place, layer,
                              chanceText(chance, loads > 0 ? countedText(loads, "load")
                                                           : selection_->stepCount(to_int(window.steps.size())))),
          .curve = curveOf(tile, history, worst.layer, figure),
          .chance = chance};
}

TileContent VerdictTiles::entropyContent(const RouterWindow& window, const History& history) {
  const LayerWindow& lowest = *window.worst(&LayerWindow::entropy);
  return {.value = QString::number(100 * lowest.entropy, 'f', 1),
          .unit = "%",
          .context = contexts(atLayer(lowest.layer), atLayer(lowest.layer), "even: 100 %"),
          .curve = curveOf(entropy, history, lowest.layer, &LayerWindow::entropy),
          .chance = 1};
}

// Experts that get almost no tokens, which the number of unused experts does not show; findings are of the newest
// steps.
std::ptrdiff_t VerdictTiles::starvedExperts(const RouterWindow& window) const {
  std::ptrdiff_t starved = 0;
  for (const Finding& finding : watch_->findings()) {
    if (finding.kind != FindingKind::starved || !finding.ongoing || !selection_->following()) continue;
    const LayerWindow* layer = window.find_layer(finding.layers.front());
    if (watch_->placeOf(finding) == selection_->run() && layer)
      starved += std::ranges::count_if(finding.experts, [layer](int e) { return layer->utilisation[e] > 0; });
  }
  return starved;
}

TileContent VerdictTiles::deadContent(const RouterWindow& window, const History& history) const {
  const int silent = window.silent();
  int experts = 0, layers = 0;
  const LayerWindow* silent_layer = &window.layers.front();
  for (const LayerWindow& layer : window.layers) {
    layers += layer.silent > 0;
    experts += to_int(layer.utilisation.size());
    if (layer.silent > silent_layer->silent) silent_layer = &layer;
  }
  TileContent content{.value = formatCount(silent), .unit = QString("of %1").arg(formatCount(experts))};
  if (const std::ptrdiff_t starved = starvedExperts(window); starved > 0) {
    const QString starved_text = QString("%1 more %2 starved").arg(formatCount(starved), starved == 1 ? "is" : "are");
    content.context << starved_text + QString(", most unused in layer %1").arg(silent_layer->layer) << starved_text
                    << QString("%1 starved").arg(formatCount(starved));
    if (silent == 0) content.context.removeFirst();
  } else if (silent == 0)
    content.context << "none";
  else
    content.context << (layers == 1 ? QString("in layer %1").arg(silent_layer->layer)
                                    : QString("in %1 layers, most in layer %2").arg(layers).arg(silent_layer->layer))
                    << QString("most in layer %1").arg(silent_layer->layer) << atLayer(silent_layer->layer);
  constexpr int kBins = 96;
  const StepRange steps{history.steps().first, selection_->windowStep()};
  const int bins = to_int(std::min<std::int64_t>(kBins, steps.size()));
  for (const PyramidBin& bin : history.series(Metric::dead_fraction, kWholeRun, steps, bins))
    content.curve.push_back(bin.finite > 0 ? bin.mean() : kNoValue);
  return content;
}

// Shows as many tiles as fit; hides the entropy first, then the spread, then the unused experts.
void VerdictTiles::place() {
  QList<int> shown{overload, spread, entropy, dead}, to_drop{entropy, spread, dead};
  const auto fits = [&] {
    const int tile_width = width() / to_int(shown.size());
    return std::ranges::all_of(shown, [&](int i) { return tiles_[i]->leastWidth() <= tile_width; });
  };
  while (!to_drop.isEmpty() && !fits()) shown.removeOne(to_drop.takeFirst());
  const int count = to_int(shown.size());
  for (int i = 0; i < 4; ++i) {
    const int at = to_int(shown.indexOf(i)), left_x = at * width() / count, right = (at + 1) * width() / count;
    tiles_[i]->setVisible(at >= 0);
    if (at >= 0) tiles_[i]->setGeometry(left_x, 0, right - left_x, height());
  }
}

FigureTarget VerdictTiles::target(Which tile) const {
  static constexpr std::array kMetrics{Metric::max_vio_window, Metric::cv, Metric::entropy_norm, Metric::dead_fraction};
  FigureTarget target{.key = kMetrics[tile]};
  target.layer = tile == dead ? kWholeRun : layers_[tile];
  target.step = selection_->windowStep();
  target.uses_window = true;
  return target;
}

void VerdictTiles::openCard(Which tile) {
  const VerdictTile* verdict_tile = tiles_[tile];
  const QPoint at = verdict_tile->mapToGlobal(QPoint(0, verdict_tile->height()));
  auto* card = ExplainCard::open(window(), at, verdict_tile->text(), [this, tile] {
    const History* history = selection_->history();
    return history ? figureCard(explain_figure(*history, target(tile))) : QString();
  });
  connect(this, &QObject::destroyed, card, &QObject::deleteLater);
}

}  // namespace moescope
