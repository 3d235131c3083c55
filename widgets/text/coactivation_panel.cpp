#include "widgets/text/coactivation_panel.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "core/frame/specialisation.h"
#include "widgets/look/counted_text.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/byte_text.h"
#include "widgets/panel/controls.h"
#include "widgets/selection/compared_runs.h"
#include "widgets/text/specialisation_panel.h"

namespace moescope {

namespace {

constexpr double kNearPoint = 14;      // pixels
constexpr double kMarginShare = 0.08;  // of the values' range, at each end of an axis

}  // namespace

// Each axis spans its own values, so that the points fill the panel.
std::pair<double, double> ScatterPlot::range(bool vertical) const {
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (const Point& point : points_) {
    low = std::fmin(low, vertical ? point.y : point.x);
    high = std::fmax(high, vertical ? point.y : point.x);
  }
  if (!(low < high)) return {-1, 1};
  const double margin = kMarginShare * (high - low);
  return {low - margin, high + margin};
}

std::vector<Tick> ScatterPlot::ticks(bool vertical) const {
  const int room = vertical ? plotRect().height() / withType(36) : plotRect().width() / withType(60);
  return linearTicks(range(vertical).first, range(vertical).second, std::max(2, room));
}

Axis ScatterPlot::axis(bool vertical) const {
  const auto [low, high] = range(vertical);
  return vertical ? axisUp(low, high) : axisAcross(low, high);
}

QPointF ScatterPlot::placeOf(int point) const {
  return {axis(false).toPixel(points_[point].x), axis(true).toPixel(points_[point].y)};
}

int ScatterPlot::nearest(QPoint position) const {
  int best = -1;
  double distance = kNearPoint;
  for (int i = 0; i < to_int(points_.size()); ++i) {
    if (!isDrawn(i)) continue;
    const QPointF offset = placeOf(i) - position;
    const double d = std::hypot(offset.x(), offset.y());
    if (d < distance) {
      best = i;
      distance = d;
    }
  }
  return best;
}

void ScatterPlot::paintStatic(QPainter& painter) {
  paintLeftAxis(painter, axis(true), ticks(true), y_caption_);
  paintVerticalGrid(painter, axis(false), ticks(false));
  paintBottomAxis(painter, axis(false), ticks(false), captionForms(x_caption_));
  if (printed()) paintLegendInRow(painter, legend_);  // else it is on the answer line
}

void ScatterPlot::paintData(QPainter& painter) {
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(palette().text().color());  // an even load has the colour of the ground
  for (int i = 0; i < to_int(points_.size()); ++i) {
    if (!isDrawn(i)) continue;
    painter.setBrush(QColor(legend_.lut[points_[i].code]));
    painter.drawEllipse(placeOf(i), radius(), radius());
  }
  painter.setRenderHint(QPainter::Antialiasing, false);
  paintIds(painter);
}

// Paints the id beside each point where it covers no other id and no point. A named point without such a place gets its
// id last, over points.
void ScatterPlot::paintIds(QPainter& painter) const {
  static const std::array kSides{QPointF(1, 0),  QPointF(-1, 0),  QPointF(0, -1), QPointF(0, 1),
                                 QPointF(1, -1), QPointF(-1, -1), QPointF(1, 1),  QPointF(-1, 1)};
  painter.setPen(palette().text().color());
  std::vector<QRectF> ids, points;
  std::vector<int> order = named_;
  for (int i = 0; i < to_int(points_.size()); ++i) {
    order.push_back(i);
    points.emplace_back(placeOf(i) - QPointF(radius(), radius()), 2 * QSizeF(radius(), radius()));
  }
  order.insert(order.end(), named_.begin(), named_.end());
  std::vector<bool> has_id(points_.size());
  for (std::size_t n = 0; n < order.size(); ++n) {
    const int i = order[n];
    if (i >= std::ssize(points_) || !isDrawn(i)) continue;
    const QSizeF size(fontMetrics().horizontalAdvance(QString::number(i)), fontMetrics().capHeight() + 2);
    for (const QPointF& side : kSides) {
      const double gap = radius() + 2;
      QRectF place({}, size);
      place.moveCenter(placeOf(i) + QPointF(side.x() * (gap + size.width() / 2), side.y() * (gap + size.height() / 2)));
      const auto covers = [&](const QRectF& other) { return other.intersects(place); };
      if (has_id[i] || !plotRect().contains(place.toAlignedRect()) || std::ranges::any_of(ids, covers)) continue;
      if (n < order.size() - named_.size() && std::ranges::any_of(points, covers)) continue;
      painter.drawText(place, Qt::AlignCenter | Qt::TextDontClip, QString::number(i));
      ids.push_back(place);
      has_id[i] = true;
    }
  }
}

void ScatterPlot::paintOverlay(QPainter& painter) {
  painter.setRenderHint(QPainter::Antialiasing);
  if (current_ >= 0 && current_ < to_int(points_.size()) && isDrawn(current_)) {
    painter.setPen(cursorColor(dark()));
    painter.drawEllipse(placeOf(current_), withType(6), withType(6));
    painter.drawEllipse(placeOf(current_), withType(7), withType(7));
  }
  painter.setRenderHint(QPainter::Antialiasing, false);
  if (const int point = nearest(mouse_); point >= 0 && describe) {
    painter.setPen(palette().text().color());
    painter.drawEllipse(placeOf(point), withType(5), withType(5));
  }
  PlotFrame::paintOverlay(painter);
}

QStringList ScatterPlot::readoutAt(QPoint position) const {
  const int point = describe ? nearest(position) : -1;
  return point < 0 ? QStringList() : describe(point);
}

void ScatterPlot::mousePressEvent(QMouseEvent* event) {
  const int point = notice().isEmpty() ? nearest(event->pos()) : -1;
  if (event->button() == Qt::LeftButton && point >= 0) emit pointChosen(current_ = point);
}

void ScatterPlot::keyPressEvent(QKeyEvent* event) {
  const int direction = arrowOf(event).x() + arrowOf(event).y();
  if (points_.empty() || direction == 0) return QWidget::keyPressEvent(event);
  const int point = std::clamp(current_ + direction, 0, to_int(points_.size()) - 1);
  current_ = point;  // set here, since keys may come faster than paints
  emit pointChosen(point);
  if (describe) emit readoutChanged(describe(point).join(QStringLiteral("   ")));
}

namespace {

constexpr int kGroupOrder = 1;  // index of "by co-activation" in the choice of order
constexpr std::size_t kNamedKinds = 3;

// Returns counts of the kinds of tokens by expert: bytes, or domains if the run does not read bytes; empty if it has
// neither.
const std::vector<std::uint32_t>& kindsOf(const SpecialisationFrame& counted) {
  return counted.byte_256E.empty() ? counted.domain_DE : counted.byte_256E;
}

// Returns the load of each expert, [E], as a multiple of the fair share.
std::vector<double> loadsOf(const std::vector<std::uint32_t>& kinds, std::size_t experts) {
  std::vector<double> loads(experts);
  for (std::size_t i = 0; i < kinds.size(); ++i) loads[i % experts] += kinds[i];
  const double all = std::accumulate(loads.begin(), loads.end(), 0.0);
  for (double& load : loads) load = all > 0 ? load * experts / all : 0;
  return loads;
}

// "'e' 3.1, space 2.4": the kinds of tokens that the expert gets more often than other experts do, with their lifts.
QString preferredKinds(const SpecialisationFrame& counted, std::size_t expert, const RunInfo& info) {
  QStringList names;
  const auto add = [&](const QString& name, float lift) {
    if (static_cast<std::size_t>(names.size()) < kNamedKinds && lift > 1)
      names << QStringLiteral("%1 %2 \u00d7").arg(name, formatValue(lift, 2));
  };
  if (counted.byte_256E.empty()) {
    for (const TokensOfExpert& domain : domains_of_expert(counted, expert))
      add(domainName(info, domain.kind), domain.lift);
  } else {
    for (const TokensOfExpert& byte : bytes_of_expert(counted, expert))
      add(byteName(static_cast<std::uint8_t>(byte.kind)), byte.lift);
  }
  return names.join(QStringLiteral(", "));
}

}  // namespace

CoactivationPanel::CoactivationPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Co-activation", Provenance::measured_here, parent) {
  showAnswers([this] { return legend(); });
  views_ = new QStackedWidget(this);
  view_ = new MatrixPlot(this);
  view_->setLegendElsewhere();
  view_->refill = [this] { refill(); };
  view_->describe = [this](int row, int column) { return describe(row, column); };
  view_->figure = [this](int row, int column) {
    return FigureTarget{.key = shows(kSimilarity) ? FigureKey("output_similarity") : FigureKey("coactivation"),
                        .layer = layerShown(),
                        .expert = order_[row],
                        .other = order_[column],
                        .step = selection_->step()};
  };
  view_->setWeights(utilisationWeights());
  view_->setHatched(kZeroLoadCode);
  view_->decorate = [this](QPainter& painter) { paintNumbers(painter); };
  followSelection(view_);
  connect(view_, &MatrixPlot::cellChosen, this, [this](int row, int) { selection_->setExpert(order_[row]); });
  makeMap();
  switch_ = new ViewSwitch({"Matrix", "Map", "Similarity"}, this);
  switch_->setAccessibleName("Co-activation as a matrix, a map of the experts, or the similarity of their outputs");
  addControl(switch_);
  addControl(new LayerCombo(selection_, this, onlyCountedLayer));
  sort_ = makeChoice({"by id", "by co-activation"}, "Order of experts",
                     "by co-activation: experts that are chosen together, or have similar outputs, are neighbours "
                     "(average-linkage clustering)");
  connect(sort_, &QComboBox::currentIndexChanged, view_, &PlotFrame::markDirty);
  addControl(sort_);
  views_->addWidget(view_);
  views_->addWidget(map_);
  connect(switch_, &ViewSwitch::changed, this, &CoactivationPanel::showView);
  addBody(views_);
  makeMeasureButton();
  keepState("sort", sort_);
  keepState(
      "view", [this] { return switch_->current(); },
      [this](const QVariant& state) { switch_->setCurrent(state.toInt()); });
  showView();
}

void CoactivationPanel::makeMap() {
  map_ = new ScatterPlot(this);
  map_->setAccessibleName("Map of the experts");
  map_->refill = [this] { refillMap(); };
  map_->describe = [this](int expert) { return describeOnMap(expert); };
  map_->figureOf = [this](QPoint position) -> std::optional<FigureTarget> {
    const int expert = map_->nearest(position);
    if (expert < 0) return std::nullopt;
    return FigureTarget{.key = "utilisation", .layer = layerShown(), .expert = expert, .step = selection_->step()};
  };
  connect(map_, &ScatterPlot::pointChosen, selection_, &Selection::setExpert);
  followSelection(map_);
}

void CoactivationPanel::makeMeasureButton() {
  connect(selection_, &Selection::dataChanged, this, &CoactivationPanel::chooseView);
  measure_ = new MeasureButton("Runs pieces of the texts through the model; every expert computes all tokens", this);
  connect(measure_, &MeasureButton::requested, this,
          [this] { emit similarityRequested(selection_->run(), selection_->step()); });
  for (const auto& change : {&Selection::dataChanged, &Selection::timeChanged})
    connect(selection_, change, this, &CoactivationPanel::showButton);
  connect(measure_, &MeasureButton::changed, this, &CoactivationPanel::showFigures);
  addBody(measure_, 0);
}

void CoactivationPanel::showView() {
  views_->setCurrentWidget(shows(kMap) ? static_cast<QWidget*>(map_) : view_);
  sort_->setVisible(!shows(kMap));
  giveFocusTo(views_->currentWidget());
  showFigures();
}

int CoactivationPanel::layerShown() const {
  const SpecialisationFrame* counts = specialisationOf((shows(kMap) ? mapped_ : frame_).get(), selection_->layer());
  return counts ? counts->layer : selection_->layer();
}

void CoactivationPanel::showFigures() {
  showButton();
  view_->markDirty();
  update();
}

// Shows the map in place of the matrix for a run that has counts of the tokens by expert, but not of pairs of experts.
void CoactivationPanel::chooseView() {
  const History* history = selection_->history();
  if (!history || chosen_for_ == history) return;
  const auto counts = history->specialisation_frame_at(INT64_MAX);
  const bool has_model = hasModel(*selection_);
  const bool has_pairs = !counts || std::ranges::any_of(counts->specialisation, [](const SpecialisationFrame& layer) {
    return !layer.together_EE.empty();
  });
  const auto enable = [&](View view, bool has_data, const char* what) {
    switch_->button(view)->setEnabled(has_data);
    switch_->button(view)->setToolTip(has_data ? QString() : notInLogNotice(history->info(), QLatin1String(what)));
  };
  enable(kMatrix, has_pairs, "experts chosen together");
  enable(kSimilarity, has_model, "weights of the experts");
  if (!counts) return;
  chosen_for_ = history;
  if ((shows(kMatrix) && !has_pairs) || (shows(kSimilarity) && !has_model) ||
      (shows(kMap) && has_pairs && map_instead_))
    switch_->setCurrent(has_pairs ? kMatrix : kMap);
  map_instead_ = !has_pairs;
}

void CoactivationPanel::showButton() {
  sort_->setEnabled(!selection_->growing());
  const bool done = measured() && isStepOfCursor(measured()->first, *selection_);
  measure_->setVisible(shows(kSimilarity) && hasModel(*selection_) && (measure_->busy() || !done));
}

void CoactivationPanel::showSimilarity(std::shared_ptr<const MeasuredSimilarity> measured) {
  measured_ = std::move(measured);
  measure_->showDone();
}

const LayerSimilarity* CoactivationPanel::similarity() const {
  return measured() ? measured()->second.find(selection_->layer()) : nullptr;
}

LegendScale CoactivationPanel::legend() const {
  const bool dark = isDark(palette());
  if (shows(kMap)) return utilisationLegend(dark);
  LegendScale legend = shows(kSimilarity) ? similar_.legend(dark) : liftLegend(dark);
  if (shows(kMatrix)) legend.caption = QString("\u00d7 chance");
  legend.swatches.push_back({QColor(legend.lut[kNoDataCode]), "itself"});
  return legend;
}

// Computes top_k from the table itself, since it may have changed in training.
int CoactivationPanel::topK(const SpecialisationFrame& table) const {
  const std::size_t experts = table.n_experts();
  double single = 0, pairs = 0;
  for (std::size_t i = 0; i < experts; ++i)
    for (std::size_t j = 0; j < experts; ++j) (i == j ? single : pairs) += table.together_EE[i * experts + j];
  return single > 0 ? to_int(std::lround(1 + pairs / single)) : 0;
}

void CoactivationPanel::refill() {
  frame_.reset();
  if (!hasSteps(view_)) return;
  shows(kSimilarity) ? refillSimilarity() : refillTogether();
}

void CoactivationPanel::refillSimilarity() {
  similar_ = {};
  const LayerSimilarity* layer = similarity();
  if (!layer && !hasModel(*selection_))
    return view_->setNotice(notInLogNotice(selection_->history()->info(), "weights of the experts"));
  if (!layer)
    return view_->setNotice(measure_->busy() ? measure_->progress()
                                             : QString("Not measured yet: \"Measure\" below runs pieces of the texts "
                                                       "through the model, and every expert computes all tokens"));
  view_->setNotice({});
  const int experts = layer->experts();
  order_.resize(experts);
  std::iota(order_.begin(), order_.end(), 0);
  if (sort_->currentIndex() == kGroupOrder) {
    std::vector<float> cosine_EE;
    for (int i = 0; i < experts; ++i)
      for (int j = 0; j < experts; ++j) cosine_EE.push_back(static_cast<float>(layer->cosine(i, j).mean));
    order_ = similarity_order(std::move(cosine_EE), experts);
  }
  similar_ = similarExperts(*layer, order_);
  view_->setCells(experts, experts, similar_.codes());
  showOrder(similar_.row_title);
}

void CoactivationPanel::refillTogether() {
  const History* history = selection_->history();
  frame_ = history->specialisation_layer_at(selection_->layer(), selection_->step());
  const SpecialisationFrame* specialisation = specialisationOf(frame_.get(), selection_->layer());
  if (!specialisation || specialisation->together_EE.empty())
    return view_->setNotice(notInLogNotice(history->info(), "experts chosen together") +
                            (specialisation ? "\n\nMap shows which experts take similar tokens." : ""));
  const int experts = to_int(specialisation->n_experts()), top_k = topK(*specialisation);
  if (top_k < 2) return view_->setNotice("Each token has one expert, so no experts are chosen together (router.top_k)");
  view_->setNotice({});
  share_ = coactivation_share(*specialisation);
  baseline_ = coactivation_baseline(top_k, experts);
  order_.resize(experts);
  std::iota(order_.begin(), order_.end(), 0);
  if (sort_->currentIndex() == kGroupOrder) order_ = coactivation_order(specialisation->together_EE, experts);
  std::vector<std::uint8_t> codes;
  for (const int i : order_)
    for (const int j : order_) {
      const float share = share_[i * experts + j];
      codes.push_back(is_missing(share) ? kNoDataCode : utilisationCode(share / baseline_));
    }
  view_->setCells(experts, experts, std::move(codes));
  showOrder("the row expert's tokens that also go to the column expert, \u00d7 chance");
}

void CoactivationPanel::showOrder(const QString& title) {
  view_->setLegend(legend());
  view_->setRowAxis(ticksOf(order_), title);
  view_->setColumnAxis(ticksOf(order_), "expert");
  view_->setCurrent(index_in(order_, selection_->expert()), -1);
}

// Multiples of chance, or cosines.
void CoactivationPanel::paintNumbers(QPainter& painter) const {
  const QString widest = shows(kSimilarity) ? QStringLiteral("-0.00") : QStringLiteral("0.0");
  view_->paintTexts(painter, view_->sizeFor(widest, 2), [this](int row, int column) {
    const int i = order_[row], j = order_[column];
    if (i == j) return QString();
    if (!shows(kSimilarity)) return liftText(share_[i * view_->columns() + j] / baseline_);
    const double cosine = similarity() ? similarity()->cosine(i, j).mean : std::nan("");
    return std::isnan(cosine) ? QString() : inPrint(QString::number(cosine, 'f', 2));
  });
}

QStringList CoactivationPanel::describe(int row, int column) const {
  const int i = order_[row], j = order_[column];
  return shows(kSimilarity) ? describeSimilarity(i, j) : describePair(i, j);
}

QStringList CoactivationPanel::describeSimilarity(int i, int j) const {
  const LayerSimilarity* layer = similarity();
  if (!layer) return {};
  QStringList lines;
  if (i != j) lines << QString("experts %1 and %2: cosine %3").arg(i).arg(j).arg(cosineText(layer->cosine(i, j)));
  const int other = layer->most_similar(i);
  if (other >= 0)
    lines << QString("most similar to expert %1: expert %2, %3")
                 .arg(i)
                 .arg(other)
                 .arg(cosineText(layer->cosine(i, other)));
  return lines;
}

QStringList CoactivationPanel::describePair(int i, int j) const {
  const SpecialisationFrame* specialisation = specialisationOf(frame_.get(), selection_->layer());
  if (!specialisation) return {};
  const auto at = [&](int a, int b) { return a * specialisation->n_experts() + b; };
  if (i == j) return {QString("expert %1: %2").arg(i).arg(countedText(specialisation->together_EE[at(i, i)], "token"))};
  return {QString("%1 of expert %2's tokens also go to expert %3").arg(formatPercent(share_[at(i, j)])).arg(i).arg(j),
          QString("by chance alone: %1; the measured share is %2 times that")
              .arg(formatPercent(baseline_), formatValue(share_[at(i, j)] / baseline_, 3)),
          countedText(specialisation->together_EE[at(i, j)], "token")};
}

// A map of the tokens of one domain alone would have all experts at one place.
std::shared_ptr<const TelemetryFrame> CoactivationPanel::countsOfMap() const {
  const auto newest = selection_->history()->specialisation_layer_at(selection_->layer(), selection_->step());
  const SpecialisationFrame* counts = specialisationOf(newest.get(), selection_->layer());
  return counts && counts->byte_256E.empty() ? countsOfDomains(*selection_) : newest;
}

void CoactivationPanel::refillMap() {
  const History* history = selection_->history();
  mapped_.reset();
  if (!hasSteps(map_)) return;
  mapped_ = countsOfMap();
  const SpecialisationFrame* specialisation = specialisationOf(mapped_.get(), selection_->layer());
  if (!specialisation || kindsOf(*specialisation).empty())
    return map_->setNotice(notInLogNotice(history->info(), "bytes by expert"));
  map_->setNotice({});
  places_ = expert_map(kindsOf(*specialisation), to_int(specialisation->n_experts()));
  const std::vector<double> loads = loadsOf(kindsOf(*specialisation), specialisation->n_experts());
  std::vector<ScatterPlot::Point> points;
  for (std::size_t e = 0; e < loads.size(); ++e) {
    const bool placed = !is_missing(places_.x_E[e]);
    const auto at = [placed](float value) { return placed ? static_cast<double>(value) : std::nan(""); };
    points.push_back({at(places_.x_E[e]), at(places_.y_E[e]), utilisationCode(loads[e])});
  }
  const auto caption = [](const char* component, float share) {
    return QString("%1 component; %2 of the variance").arg(QLatin1String(component), formatPercent(share));
  };
  map_->setAxes(caption("first", places_.x_share), caption("second", places_.y_share));
  map_->setLegend(legend());
  map_->setPoints(std::move(points));
  const auto [a, b] = nearestOnMap();
  map_->setNamed({a, b, std::max(0, selection_->expert())});
  map_->setCurrent(selection_->expert());
}

QStringList CoactivationPanel::describeOnMap(int expert) const {
  const SpecialisationFrame* specialisation = specialisationOf(mapped_.get(), selection_->layer());
  const std::size_t e = expert;
  if (!specialisation || e >= specialisation->n_experts()) return {};
  QStringList lines{QString("expert %1: %2 \u00d7 fair share")
                        .arg(expert)
                        .arg(formatValue(loadsOf(kindsOf(*specialisation), specialisation->n_experts())[e], 3))};
  const QString kinds = preferredKinds(*specialisation, e, selection_->history()->info());
  if (!kinds.isEmpty()) lines << QString("prefers %1 its share").arg(kinds);
  return lines;
}

// The answer names the two experts that are nearest to each other on the map.
Panel::Answer CoactivationPanel::answerOfMap() const {
  if (!mapped_ || !map_->notice().isEmpty()) return {};
  const auto [a, b] = nearestOnMap();
  if (a == b) return {};
  const QString nearest = QString("Nearest on the map: %1 and %2").arg(a).arg(b);
  return {
      "Which experts take the same tokens?",
      {QString("%1; the map shows %2 of the variance").arg(nearest, formatPercent(places_.x_share + places_.y_share)),
       nearest, QString("%1 and %2 are nearest").arg(a).arg(b)}};
}

std::pair<int, int> CoactivationPanel::nearestOnMap() const {
  std::pair<int, int> nearest{0, 0};
  float smallest = std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < places_.x_E.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const float distance = std::hypot(places_.x_E[i] - places_.x_E[j], places_.y_E[i] - places_.y_E[j]);
      if (distance < smallest) {  // false for experts without a token, which are at NaN
        smallest = distance;
        nearest = {to_int(j), to_int(i)};
      }
    }
  return nearest;
}

Panel::Answer CoactivationPanel::answerOfSimilarity() const {
  if (measure_->busy()) return {{}, {measure_->progress()}};
  if (!measure_->refused().isEmpty()) return {{}, {measure_->refused()}, true};
  if (!similarity()) return hasModel(*selection_) ? Answer{{}, {"Not measured yet"}} : Answer();
  return {"Which experts are most similar?", similarityAnswers(*similarity())};
}

Panel::Answer CoactivationPanel::answer() const {
  if (shows(kMap)) return answerOfMap();
  if (shows(kSimilarity)) return answerOfSimilarity();
  const SpecialisationFrame* specialisation = specialisationOf(frame_.get(), selection_->layer());
  if (!specialisation || !view_->notice().isEmpty() || share_.empty()) return {};
  const std::size_t experts = specialisation->n_experts();
  std::size_t best = 1;
  for (std::size_t i = 0; i < share_.size(); ++i)
    if (i / experts != i % experts && !is_missing(share_[i]) && (is_missing(share_[best]) || share_[i] > share_[best]))
      best = i;
  if (is_missing(share_[best])) return {};
  if (const QStringList forced = forcedAnswer(*selection_, frame_->step); !forced.isEmpty())
    return {"Which experts work together?", forced};
  const QString times = formatValue(share_[best] / baseline_, 2);
  const auto answer = [&](const char* form) {
    return QString(form).arg(best / experts).arg(best % experts).arg(times);
  };
  return {"Which experts work together?",
          {answer("Tokens of expert %1 also go to %2: %3 \u00d7 as often as by chance"),
           answer("Experts %1 and %2 share tokens: %3 \u00d7 chance"), answer("Experts %1 and %2: %3 \u00d7 chance")}};
}

QString CoactivationPanel::status() const {
  if (shows(kSimilarity))
    return measured() ? measuredText(*selection_, measured()->second.pieces, measured()->first) : QString();
  const auto& shown = shows(kMap) ? mapped_ : frame_;
  return shown ? timeStatus(shown->step, false) + ", batches" : QString();
}

// Adds a row for each expert with tokens to the table of the map.
void CoactivationPanel::addMap(ValueTable& table, std::int64_t step, const SpecialisationFrame& counts) {
  if (kindsOf(counts).empty()) return;
  const ExpertMap map = expert_map(kindsOf(counts), to_int(counts.n_experts()));
  const std::vector<double> loads = loadsOf(kindsOf(counts), counts.n_experts());
  for (std::size_t e = 0; e < loads.size(); ++e)
    if (!is_missing(map.x_E[e])) table.add(step, counts.layer, e, map.x_E[e], map.y_E[e], loads[e]);
}

ValueTable CoactivationPanel::table() const {
  if (shows(kSimilarity)) return similarityTable(measured() ? measured_->by_step : MeasuredSimilarity::ByStep());
  ValueTable table =
      shows(kMap) ? ValueTable({"step", "layer", "expert", "first component", "second component", "load [fair shares]"})
                  : ValueTable({"step", "layer", "expert i", "expert j", "tokens of both", "share N(ij)/N(i) [share]"});
  const History* history = selection_->history();
  if (!history) return table;
  const auto frame = shows(kMap) ? countsOfMap() : history->specialisation_frame_at(selection_->step());
  const SpecialisationFrame* specialisation = specialisationOf(frame.get(), selection_->layer());
  if (!specialisation) return table;
  if (shows(kMap)) addMap(table, frame->step, *specialisation);
  if (shows(kMap)) return table;
  const std::vector<float> share = coactivation_share(*specialisation);
  for (std::size_t i = 0; i < share.size(); ++i)
    table.add(frame->step, specialisation->layer, i / specialisation->n_experts(), i % specialisation->n_experts(),
              specialisation->together_EE[i], share[i]);
  return table;
}

}  // namespace moescope
