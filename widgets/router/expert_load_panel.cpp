#include "widgets/router/expert_load_panel.h"

#include <QPainter>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/frame/router_stats.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"
#include "widgets/panel/layer_combo.h"
#include "widgets/plots/margin_bars.h"

namespace moescope {
namespace {

constexpr int kBarsWidth = 130, kBarFigure = 40;  // widths of the bars beside the layers and of their figures
constexpr int kMinWidthOfBars = 460;              // width of the plot from which bars are shown
// A layer in which an expert has twice its fair share is uneven: every rank waits for the rank of that expert.
constexpr float kUnevenMaxVio = 1;    // MaxVio
constexpr double kFarFromRest = 0.5;  // share of the largest MaxVio from which bars are strong
constexpr double kHotLoad = 4;        // load, in fair shares, from which the answer names experts together

QString sharesText(double times) {
  return QString("%1 times its fair share").arg(formatValue(times, 3));
}

QString evenText(const History& run) {
  return run.settings_at_start()->holds(&RouterConfig::force_balance)
             ? QString("Balance is forced: every expert gets its fair share")
             : QString("All experts get their fair share");
}

}  // namespace

ExpertLoadPanel::ExpertLoadPanel(Selection* selection, View view, QWidget* parent)
    : Panel(selection, view == one_layer ? "Expert load of one layer" : "Expert load", Provenance::measured_here,
            parent) {
  views_ = new QStackedWidget(this);
  buildControls(view);
  buildStack();
  buildMatrix();
  showView();
  for (auto signal : {&Selection::dataChanged, &Selection::timeChanged})
    connect(selection_, signal, matrix_, &PlotFrame::markDirty);
  connect(selection_, &Selection::timeChanged, stack_, &PlotFrame::markDirty);  // the bars show the cursor's step
  connect(selection_, &Selection::focusChanged, matrix_, [this] {
    markCurrent();
    matrix_->update();
    if (this->view() == one_layer) stack_->markDirty();
  });
  showAnswers([this] { return utilisationLegend(isDark(palette()), limit()); });
  addBody(views_);
  keepState(
      "view", [this] { return switch_->current(); },
      [this](const QVariant& state) { switch_->setCurrent(state.toInt()); });
  keepState("sort", sort_);
  keepState("extreme", summary_);
}

void ExpertLoadPanel::buildControls(View view) {
  switch_ = new ViewSwitch({"Over time", "At a step", "One layer"}, this);
  const auto name = [this] { switch_->setName(1, QString("At a %1").arg(selection_->stepWord())); };
  connect(selection_, &Selection::dataChanged, this, name);
  name();
  switch_->setAccessibleName("Expert load over time, at a step, or of one layer over time");
  switch_->setCurrent(view);
  connect(switch_, &ViewSwitch::changed, this, &ExpertLoadPanel::showView);
  layer_ = new LayerCombo(selection_, this);
  sort_ = makeChoice(
      {"by id", "by load", "by cluster"}, "Order of experts",
      "Order of the experts of each layer: by id, from the most to the least loaded at the cursor's step, or so "
      "that experts chosen together are neighbours");
  summary_ = makeChoice({"mean", "extreme"}, "Steps that share a pixel",
                        "Where many steps share a pixel: their mean, which averages out noise, or the value farthest "
                        "from the fair share, which shows every spike but makes noisy runs look worse");
  for (QComboBox* choice : {sort_, summary_})
    connect(choice, &QComboBox::currentIndexChanged, this, &ExpertLoadPanel::markDirty);
  addControl(switch_);
  addControl(layer_);
  addControl(sort_);
  addOption(summary_);
}

void ExpertLoadPanel::buildStack() {
  stack_ = new LayerStackMap(selection_, this);
  stack_->refill = [this] { refillStack(); };
  stack_->fetch = [this](StepRange range, int bins) { return stackCodes(range, bins); };
  stack_->describe = [this](int row, std::int64_t step) { return describeInStack(row, step); };
  stack_->figure = [this](int row, std::int64_t step) {
    return FigureTarget{
        .key = "utilisation", .layer = stack_->layerAt(row), .expert = stack_->expertAt(row), .step = step};
  };
  stack_->setHatched(kZeroLoadCode);
  connect(stack_, &TimeHeatMap::rowClicked, this, [this](int row) {
    if (stack_->layerAt(row) < 0) return;
    selection_->setLayer(stack_->layerAt(row));
    selection_->setExpert(stack_->expertAt(row));
  });
  views_->addWidget(stack_);
}

void ExpertLoadPanel::buildMatrix() {
  matrix_ = new MatrixPlot(this);
  matrix_->refill = [this] { refillMatrix(); };
  matrix_->describe = [this](int row, int column) {
    return frame_ ? readout({frame_->step, std::int64_t{routerAt(row).layer}, std::int64_t{expertAt(row, column)}})
                  : QStringList();
  };
  matrix_->figure = [this](int row, int column) {
    return FigureTarget{.key = "utilisation",
                        .layer = routerAt(row).layer,
                        .expert = expertAt(row, column),
                        .step = frame_ ? frame_->step : selection_->step()};
  };
  matrix_->decorate = [this](QPainter& painter) {
    paintNumbers(painter);
    paintMaxVio(painter);
  };
  matrix_->setLegendElsewhere();
  matrix_->setHatched(kZeroLoadCode);
  connect(matrix_, &MatrixPlot::cellChosen, this, [this](int row, int column) {
    selection_->setLayer(routerAt(row).layer);
    selection_->setExpert(expertAt(row, column));
  });
  views_->addWidget(matrix_);
}

void ExpertLoadPanel::showView() {
  views_->setCurrentWidget(view() == at_a_step ? static_cast<QWidget*>(matrix_) : stack_);
  layer_->setVisible(view() == one_layer);
  giveFocusTo(views_->currentWidget());
  markDirty();
  update();
}

void ExpertLoadPanel::markDirty() {
  matrix_->markDirty();
  stack_->markDirty();
}

std::vector<int> ExpertLoadPanel::orderOf(const RouterFrame& router, int columns) {
  return orders_.orderOf(*selection_->history(), router.layer, router.tokens_per_expert, columns,
                         sort_->currentIndex());
}

QString ExpertLoadPanel::status() const {
  const auto frame = selection_->frame();
  if (view() == at_a_step) return frame ? timeStatus(frame->step, true) : QString();
  QStringList parts;
  const std::size_t shown = stack_->layers().size(), all = frame ? layersOf(*frame).size() : 0;
  if (view() == over_time && shown < all) parts << QString("%1 of %2 layers").arg(shown).arg(all);
  if (!selection_->following()) parts << timeStatus(selection_->step(), false);
  return parts.join(QStringLiteral(", "));
}

const RouterWindow& ExpertLoadPanel::window() const {
  const History* history = selection_->history();
  const std::int64_t step = selection_->step();
  const std::uint64_t sequence = history ? history->sequence() : 0;
  if (window_.history != history || window_.sequence != sequence || window_.step != step)
    window_ = {history, sequence, step, history ? router_window(*history, step) : RouterWindow{}};
  return window_.loads;
}

bool ExpertLoadPanel::hasLoads() {
  frame_.reset();
  if (!hasSteps(matrix_)) return hasSteps(stack_);  // without steps, both plots get a notice
  frame_ = selection_->frame();
  const bool any = frame_ && !layersOf(*frame_).empty() && !routerAt(0).tokens_per_expert.empty();
  const QString notice = any ? QString() : notInLogNotice(selection_->history()->info(), "tokens per expert");
  for (PlotFrame* plot : std::initializer_list<PlotFrame*>{matrix_, stack_}) plot->setNotice(notice);
  return any;
}

// Returns the end of the colour scale, which reaches every load that has lasted, in any layer at any step of any open
// run, so that all runs have one scale, and in the view of a step all its loads.
int ExpertLoadPanel::limit() const {
  float largest = 0;
  for (const HistoryPtr& run : selection_->histories()) {
    if (run->steps().empty()) continue;
    const PyramidBin all = run->series(Metric::max_vio_window_max, kWholeRun, run->steps(), 1).front();
    if (all.finite > 0) largest = std::max(largest, all.max);
  }
  if (const auto frame = view() == at_a_step ? selection_->frame() : nullptr)
    for (const RouterFrame& router : frame->routers)
      largest = std::max(largest, max_vio(std::span<const std::uint32_t>(router.tokens_per_expert)));
  return loadLimit(1 + largest);
}

std::vector<int> ExpertLoadPanel::shownLayers() {
  if (view() == one_layer) return {selection_->layer()};
  const History& history = *selection_->history();
  std::vector<int> all = history.info().moe_layers;
  const int max_layers = stack_->mostLayers(to_int(all.size()));
  if (max_layers >= std::ssize(all)) return all;
  const int chosen = selection_->expert() >= 0 ? selection_->layer() : -1;
  const bool shows_chosen = std::ranges::find(shown_.layers, chosen) != shown_.layers.end() || chosen < 0;
  if (shown_.history == &history && shown_.max_layers == max_layers && shows_chosen && !shown_.layers.empty())
    return shown_.layers;
  const auto unevenness = [&](int layer) {
    const LayerWindow* layer_window = window().find_layer(layer);
    if (layer == chosen) return HUGE_VAL;
    return layer_window ? static_cast<double>(layer_window->max_vio) : -1;
  };
  std::ranges::stable_sort(all, std::greater{}, unevenness);
  all.resize(max_layers);
  std::ranges::sort(all);
  shown_ = {&history, chosen, max_layers, all};
  return all;
}

std::vector<std::uint8_t> ExpertLoadPanel::stackCodes(StepRange range, int bins) const {
  const std::size_t rows = stack_->rowCount();
  std::vector<std::uint8_t> codes(rows * bins, kNoDataCode);
  const int limit = this->limit();
  for (const int layer : stack_->layers()) {
    const auto values = selection_->history()->utilisation(layer, range, bins, summary());
    const std::size_t experts = values.size() / bins;
    const std::size_t first = stack_->rowOf(layer, 0);
    for (std::size_t bin = 0; bin < static_cast<std::size_t>(bins); ++bin)
      for (std::size_t e = 0; e < experts && first + e < rows; ++e)
        codes[bin * rows + first + e] = utilisationCode(values[bin * experts + e], limit);
  }
  return codes;
}

void ExpertLoadPanel::refillStack() {
  if (!hasLoads()) return;
  const History& history = *selection_->history();
  const int experts = history.info().n_experts;
  std::vector<int> layers = shownLayers();
  std::vector<std::vector<int>> orders;
  for (const int layer : layers) {
    const RouterFrame* router = find_router(frame_.get(), layer);
    const bool by_number = sort_->currentIndex() == ExpertOrders::by_id || !router;
    orders.push_back(by_number ? std::vector<int>{} : orderOf(*router, experts));
  }
  QString source =
      QStringLiteral("%1:%2:%3").arg(reinterpret_cast<quintptr>(&history)).arg(summary_->currentIndex()).arg(limit());
  for (const int layer : layers) source += QStringLiteral(",%1").arg(layer);
  stack_->setLayers(std::move(layers), experts, orders);
  stack_->setWindow(&window());
  stack_->setLegend(utilisationLegend(isDark(palette()), limit()));
  stack_->setWeights(utilisationWeights(limit()));
  stack_->setSource(source, stack_->rowCount());
  stack_->setHeld(history.count() < history.steps().size());  // for logs that have a load at some steps only
  noteColumns(stack_, summary_->currentText());
  const int expert = selection_->expert();
  stack_->setCurrentRow(stack_->rowOf(selection_->layer(), expert), expert < 0 ? QString() : QString::number(expert));
}

void ExpertLoadPanel::refillMatrix() {
  if (!hasLoads()) return;
  const int rows = to_int(layersOf(*frame_).size());
  int columns = 0;
  const int limit = this->limit();
  for (const RouterFrame& router : frame_->routers)
    columns = std::max(columns, to_int(router.tokens_per_expert.size()));
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(rows) * columns, kNoDataCode);
  order_.assign(rows, {});
  std::vector<Tick> row_ticks;
  for (int row = 0; row < rows; ++row) {
    const auto& counts = routerAt(row).tokens_per_expert;
    const std::vector<int>& order = order_[row] = orderOf(routerAt(row), columns);
    const std::uint64_t total = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    for (int column = 0; column < columns && total > 0; ++column)
      if (order[column] < std::ssize(counts))
        codes[static_cast<std::size_t>(row) * columns + column] =
            utilisationCode(static_cast<double>(counts[order[column]]) * counts.size() / total, limit);
    row_ticks.push_back({static_cast<double>(row), QString::number(routerAt(row).layer)});
  }
  matrix_->setCells(rows, columns, std::move(codes));
  matrix_->setLegend(utilisationLegend(isDark(palette()), limit));
  matrix_->setWeights(utilisationWeights(limit));
  matrix_->setExtraMargins(
      {0, 0, matrix_->width() >= withType(kMinWidthOfBars, fontMetrics()) ? withType(kBarsWidth, fontMetrics()) : 0,
       0});
  matrix_->setRowAxis(std::move(row_ticks), "layer");
  QString caption = "expert";
  if (sort_->currentIndex() == ExpertOrders::by_load) caption = "rank by load, most loaded first";
  if (sort_->currentIndex() == ExpertOrders::by_cluster) caption = "experts, chosen together side by side";
  matrix_->setColumnAxis(integerTicks(0, columns - 1, std::max(2, matrix_->width() / 60)), caption);
  markCurrent();
}

// Paints the value in cells that are large enough.
void ExpertLoadPanel::paintNumbers(QPainter& painter) const {
  matrix_->paintTexts(painter, matrix_->sizeFor(QStringLiteral("0.00"), {6, 2}), [this](int row, int column) {
    const auto& counts = routerAt(row).tokens_per_expert;
    const int expert = expertAt(row, column);
    return expert < std::ssize(counts) && counts[expert] > 0 ? QString::number(utilisation(counts, expert), 'f', 2)
                                                             : QString();
  });
}

// Paints the most uneven layer, and uneven layers close to it, as strong bars, so that they stand out among many
// layers.
void ExpertLoadPanel::paintMaxVio(QPainter& painter) const {
  const QRect cells = matrix_->cellsRect();
  const int room = matrix_->width() - cells.right() - kSpace12;
  if (room < withType(kBarsWidth, fontMetrics()) - kSpace12) return;
  MarginBars bars{.caption = QString("MaxVio, %1 %2").arg(selection_->stepWord(), formatCount(frame_->step))};
  double largest = 0;
  for (int row = 0; row < matrix_->rows(); ++row) {
    const QRectF cell = matrix_->cellRect(row, 0);
    const double value = max_vio(std::span<const std::uint32_t>(routerAt(row).tokens_per_expert));
    bars.bars.push_back({cell.top(), cell.bottom(), std::isnan(value) ? 0 : value});
    largest = std::max(largest, bars.bars.back().value);
  }
  for (MarginBar& bar : bars.bars)
    bar.strong = bar.value >= largest || (bar.value >= kUnevenMaxVio && bar.value >= kFarFromRest * largest);
  const QRect area(cells.right() + kSpace12, cells.top(), room - withType(kBarFigure, fontMetrics()), cells.height());
  paintMarginBars(painter, area, bars, palette());
}

void ExpertLoadPanel::markCurrent() {
  int row = -1, column = -1;
  for (int i = 0; frame_ && i < to_int(order_.size()); ++i)
    if (routerAt(i).layer == selection_->layer()) row = i;
  if (row >= 0 && selection_->expert() >= 0) {
    const auto place = std::ranges::find(order_[row], selection_->expert());
    if (place != order_[row].end()) column = to_int(place - order_[row].begin());
  }
  matrix_->setCurrent(row, column);
}

QStringList ExpertLoadPanel::describeInStack(int row, std::int64_t step) const {
  const int layer = stack_->layerAt(row), expert = stack_->expertAt(row);
  QStringList lines = expertReadout(*selection_, step, layer, expert);
  if (const QString column = columnText(layer, expert, step); !lines.isEmpty() && !column.isEmpty()) lines << column;
  return lines;
}

// Returns mean and extreme of the column under the mouse as text; empty if the column is one step.
QString ExpertLoadPanel::columnText(int layer, int expert, std::int64_t step) const {
  const std::int64_t steps = stack_->stepsPerColumn(), first = step / steps * steps;
  if (steps <= 1) return {};
  const StepRange column{first, first + steps - 1};
  const auto value = [&](Summary summary) {
    const auto row = selection_->history()->utilisation(layer, column, 1, summary);
    return formatValue(expert < std::ssize(row) ? row[expert] : kNoValue, 3);
  };
  return QString("its column, steps %1 to %2: mean %3, extreme %4")
      .arg(formatCount(column.first), formatCount(column.last), value(Summary::mean), value(Summary::farthest));
}

Panel::Answer ExpertLoadPanel::answer() const {
  const History* history = selection_->history();
  if (!history || history->steps().empty()) return {};
  if (view() == one_layer) return answerOfLayer();
  if (window().layers.empty()) return {};
  return view() == over_time ? answerOverTime() : answerAtAStep();
}

// "Mostly even since step 400; expert 3 of layer 1 gets the most, 1.56 times its fair share".
Panel::Answer ExpertLoadPanel::answerOverTime() const {
  const History& history = *selection_->history();
  const LayerWindow& worst = *window().worst(&LayerWindow::max_vio);
  if (worst.max_vio <= 0) return {"Who gets the tokens?", {evenText(*selection_->history())}};
  const QString expert_text = QString("expert %1 of layer %2 gets the most").arg(worst.fullest).arg(worst.layer);
  const QString share = sharesText(worst.max_vio + 1);
  const auto uneven = std::ranges::count_if(
      window().layers, [](const LayerWindow& layer_window) { return layer_window.max_vio >= kUnevenMaxVio; });
  QString head = "Mostly even";
  if (uneven > 0) {
    head = window().layers.size() == 1 ? QString("Uneven")
                                       : QString("%1 of %2 layers are uneven").arg(uneven).arg(window().layers.size());
  } else if (selection_->following()) {
    const std::int64_t last = last_step_at_least(history, Metric::max_vio_window_max, kWholeRun, kUnevenMaxVio);
    const bool has_ended = last >= 0 && last + kWindowSteps < history.steps().last;
    if (has_ended) head = QString("Mostly even since step %1").arg(formatCount(last + 1));
  }
  const QString short_who = QString("expert %1 of layer %2: %3 \u00d7 fair share")
                                .arg(worst.fullest)
                                .arg(worst.layer)
                                .arg(formatValue(worst.max_vio + 1, 3));
  return {"Who gets the tokens?",
          {head + QStringLiteral("; ") + expert_text + QStringLiteral(", ") + share +
               QString(", over %1").arg(selection_->rangeText(window().steps)),
           head + QStringLiteral("; ") + expert_text + QStringLiteral(", ") + share,
           head + QStringLiteral("; ") + expert_text, head + QStringLiteral("; ") + short_who, head}};
}

Panel::Answer ExpertLoadPanel::answerAtAStep() const {
  const auto frame = selection_->frame();
  if (!frame || frame->routers.empty()) return {};
  double largest = -1;
  int layer = -1, silent = 0, experts = 0, uneven = 0;
  std::ptrdiff_t fullest = 0;
  for (const RouterFrame& router : frame->routers) {
    const auto& counts = router.tokens_per_expert;
    const double value = max_vio(std::span<const std::uint32_t>(counts));
    experts += to_int(counts.size());
    silent += to_int(std::ranges::count(counts, 0u));
    uneven += value >= kUnevenMaxVio;
    if (value > largest) {
      largest = value;
      layer = router.layer;
      fullest = std::ranges::max_element(counts) - counts.begin();
    }
  }
  if (layer < 0) return {};
  if (largest <= 0) return {"Who gets the tokens?", {evenText(*selection_->history())}};
  const QString expert_text =
      QString("Expert %1 of layer %2 gets %3").arg(fullest).arg(layer).arg(sharesText(largest + 1));
  const QString none =
      silent > 0 ? QString("; %1 of %2 get no token").arg(silent).arg(formatCount(experts)) : QString();
  const QString uneven_text = layersOf(*frame).size() > 1 && uneven > 0
                                  ? QString("; %1 of %2 layers are uneven").arg(uneven).arg(layersOf(*frame).size())
                                  : QString();
  return {"Who gets the tokens?",
          {expert_text + uneven_text + none, expert_text + uneven_text, expert_text,
           QString("Expert %1 of layer %2: %3 \u00d7 fair share")
               .arg(fullest)
               .arg(layer)
               .arg(formatValue(largest + 1, 3))}};
}

// "4 experts take 46 % of the assignments, 171 of 256 get none", or the expert with the most tokens.
// Speaks of the same steps as MaxVio beside the map.
Panel::Answer ExpertLoadPanel::answerOfLayer() const {
  const LayerWindow* load = window().find_layer(selection_->layer());
  if (!load) return {};
  const QString question = QString("Who gets the tokens of layer %1?").arg(load->layer);
  if (load->max_vio <= 0) return {question, {evenText(*selection_->history())}};
  const auto is_hot = [](float times) { return times >= kHotLoad; };
  const auto hot_experts = std::ranges::count_if(load->utilisation, is_hot);
  QString short_load = QString("at most %1 \u00d7 fair share").arg(formatValue(load->max_vio + 1, 3));
  QString first = QString("Expert %1 gets the most, %2").arg(load->fullest).arg(sharesText(load->max_vio + 1));
  if (hot_experts > 1) {
    double hot_times = 0;
    for (const float times : load->utilisation) hot_times += is_hot(times) ? times : 0;
    short_load =
        QString("%1 experts take %2").arg(hot_experts).arg(formatPercent(hot_times / load->utilisation.size()));
    first = short_load + QStringLiteral(" of the assignments");
  }
  if (load->silent > 0)
    first += QString(load->silent == 1 ? ", %1 of %2 gets none" : ", %1 of %2 get none")
                 .arg(load->silent)
                 .arg(load->utilisation.size());
  const QString steps = QString(", over %1").arg(selection_->rangeText(window().steps));
  return {question, {first + steps, first, short_load + steps, short_load}};
}

ValueTable ExpertLoadPanel::table() const {
  if (view() == one_layer) return tableOfLayer();
  const auto frame = selection_->frame();
  return expertTable(*selection_, frame.get());
}

// A row for each step, a column for each expert.
ValueTable ExpertLoadPanel::tableOfLayer() const {
  std::vector<ValueColumn> columns{{"step"}, {"layer"}};
  const History* history = selection_->history();
  const int experts = history ? history->info().n_experts : 0;
  for (int e = 0; e < experts; ++e) columns.push_back({"load of expert " + std::to_string(e), kUtilisationUnit});
  ValueTable table(std::move(columns));
  if (experts == 0 || selection_->range().empty()) return table;
  const std::vector<std::int64_t> steps = history->steps_in(selection_->range());
  const auto values = history->utilisation(selection_->layer(), edges_of(steps), summary());
  for (std::size_t i = 0; i < steps.size(); ++i)
    table.add_series({steps[i], std::int64_t{selection_->layer()}}, std::span(values).subspan(i * experts, experts));
  return table;
}

}  // namespace moescope
