#include "widgets/router/expert_load_panel.h"

#include <QPainter>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/frame/router_stats.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"
#include "widgets/panel/csv.h"
#include "widgets/plots/margin_bars.h"

namespace moescope {
namespace {

constexpr int kBarsWidth = 130, kBarFigure = 40;  // widths of the bars beside the layers and of their figures
constexpr int kLeastForBars = 460;                // width of the plot from which bars are shown
// A layer in which an expert has twice its fair share is uneven: every rank waits for the rank of that expert.
constexpr float kUnevenMaxVio = 1;    // MaxVio
constexpr double kFarFromRest = 0.5;  // share of the largest MaxVio from which bars are strong

QString sharesText(double times) {
  return QString("%1 times its fair share").arg(formatValue(times, 3));
}

}  // namespace

ExpertLoadPanel::ExpertLoadPanel(Selection* selection, View view, QWidget* parent)
    : Panel(selection, "Expert load", Provenance::measured_here, parent) {
  views_ = new QStackedWidget(this);
  buildControls(view);
  buildStack();
  buildMatrix();
  views_->setCurrentIndex(view);
  for (auto signal : {&Selection::dataChanged, &Selection::timeChanged})
    connect(selection_, signal, matrix_, &PlotFrame::markDirty);
  connect(selection_, &Selection::timeChanged, stack_, &PlotFrame::markDirty);  // the bars show the cursor's step
  connect(selection_, &Selection::focusChanged, matrix_, [this] {
    markCurrent();
    matrix_->update();
  });
  showAnswers([this] { return utilisationLegend(isDark(palette()), scale_->scale()); });
  addBody(views_);
  giveFocusTo(views_->currentWidget());
  for (PlotFrame* plot : {static_cast<PlotFrame*>(matrix_), static_cast<PlotFrame*>(stack_)})
    plot->setAccessibleName(title());
  keepState(
      "view", [this] { return switch_->current(); },
      [this](const QVariant& state) { switch_->setCurrent(state.toInt()); });
  keepState("sort", sort_);
  keepState("extreme", summary_);
  keepState(
      "scale", [this] { return static_cast<int>(scale_->scale()); },
      [this](const QVariant& state) { scale_->setScale(state.toInt()); });
}

void ExpertLoadPanel::buildControls(View view) {
  switch_ = new ViewSwitch({"Over time", "At a step"}, this);
  const auto name = [this] { switch_->setName(1, QString("At a %1").arg(selection_->stepWord())); };
  connect(selection_, &Selection::dataChanged, this, name);
  name();
  switch_->setAccessibleName("Expert load over time or at a step");
  switch_->setCurrent(view);
  connect(switch_, &ViewSwitch::changed, this, [this](int index) {
    views_->setCurrentIndex(index);
    giveFocusTo(views_->currentWidget());
    markDirty();
    update();
  });
  sort_ = makeChoice(
      {"by id", "by load", "by cluster"}, "Order of experts",
      "Order of the experts of each layer: by id, from the most to the least loaded at the cursor's step, or so "
      "that experts chosen together are neighbours");
  summary_ = makeChoice({"mean", "extreme"}, "Steps that share a pixel");
  scale_ = new LoadScaleButton(this);
  for (QComboBox* choice : {sort_, summary_})
    connect(choice, &QComboBox::currentIndexChanged, this, &ExpertLoadPanel::markDirty);
  connect(scale_, &LoadScaleButton::changed, this, &ExpertLoadPanel::markDirty);
  addControl(switch_);
  addControl(sort_);
  addOption(summary_);
  addOption(scale_);
}

void ExpertLoadPanel::buildStack() {
  stack_ = new LayerStackMap(selection_, this);
  stack_->refill = [this] { refillStack(); };
  stack_->fetch = [this](StepRange range, int bins) { return stackCodes(range, bins); };
  stack_->describe = [this](int row, std::int64_t step) {
    return loadReadout(*selection_, step, stack_->layerAt(row), stack_->expertAt(row));
  };
  stack_->figure = [this](int row, std::int64_t step) {
    return FigureTarget{
        .key = "utilisation", .layer = stack_->layerAt(row), .expert = stack_->expertAt(row), .step = step};
  };
  stack_->setWeights(utilisationWeights());
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
  matrix_->describe = [this](int row, int column) { return describe(row, column); };
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
  matrix_->setWeights(utilisationWeights());
  matrix_->setHatched(kZeroLoadCode);
  connect(matrix_, &MatrixPlot::cellChosen, this, [this](int row, int column) {
    selection_->setLayer(routerAt(row).layer);
    selection_->setExpert(expertAt(row, column));
  });
  views_->addWidget(matrix_);
}

void ExpertLoadPanel::markDirty() {
  matrix_->markDirty();
  stack_->markDirty();
}

std::vector<int> ExpertLoadPanel::orderOf(const RouterFrame& router, int columns) {
  return orders_.of(*selection_->history(), router.layer, router.tokens_per_expert, columns, sort_->currentIndex());
}

QString ExpertLoadPanel::status() const {
  if (view() == over_time) return selection_->following() ? QString() : timeStatus(selection_->step(), false);
  const auto frame = selection_->frame();
  return frame ? timeStatus(frame->step, true) : QString();
}

const RouterWindow& ExpertLoadPanel::window() const {
  const History* history = selection_->history();
  const std::int64_t step = selection_->step();
  const std::uint64_t sequence = history ? history->sequence() : 0;
  if (window_.history != history || window_.sequence != sequence || window_.step != step)
    window_ = {history, sequence, step, history ? router_window(*history, step) : RouterWindow{}};
  return window_.of;
}

bool ExpertLoadPanel::hasLoads() {
  frame_.reset();
  if (!hasSteps(matrix_)) return hasSteps(stack_);  // without steps, both plots get a notice
  frame_ = selection_->frame();
  const bool any = frame_ && !frame_->routers.empty() && !frame_->routers[0].tokens_per_expert.empty();
  const QString notice = any ? QString() : notInLogNotice(selection_->history()->info(), "tokens per expert");
  for (PlotFrame* plot : std::initializer_list<PlotFrame*>{matrix_, stack_}) plot->setNotice(notice);
  return any;
}

std::vector<int> ExpertLoadPanel::shownLayers() {
  const History& history = *selection_->history();
  std::vector<int> all = history.info().moe_layers;
  const int most = stack_->mostLayers(static_cast<int>(all.size()));
  if (most >= std::ssize(all)) return all;
  const int chosen = selection_->expert() >= 0 ? selection_->layer() : -1;
  const bool still = std::ranges::find(shown_.layers, chosen) != shown_.layers.end() || chosen < 0;
  if (shown_.history == &history && shown_.most == most && still && !shown_.layers.empty()) return shown_.layers;
  const auto unevenness = [&](int layer) {
    const LayerWindow* of = window().of(layer);
    return layer == chosen ? HUGE_VAL : of ? of->max_vio : -1;
  };
  std::ranges::stable_sort(all, std::greater{}, unevenness);
  all.resize(static_cast<std::size_t>(most));
  std::ranges::sort(all);
  shown_ = {&history, chosen, most, all};
  return all;
}

std::vector<std::uint8_t> ExpertLoadPanel::stackCodes(StepRange range, int bins) const {
  const auto rows = static_cast<std::size_t>(stack_->rowCount());
  std::vector<std::uint8_t> codes(rows * static_cast<std::size_t>(bins), kNoDataCode);
  const Summary summary = summary_->currentIndex() == 0 ? Summary::mean : Summary::farthest;
  for (const int layer : stack_->layers()) {
    const auto values = selection_->history()->utilisation(layer, range, bins, summary);
    const std::size_t experts = values.size() / static_cast<std::size_t>(bins);
    const auto first = static_cast<std::size_t>(stack_->rowOf(layer, 0));
    for (std::size_t bin = 0; bin < static_cast<std::size_t>(bins); ++bin)
      for (std::size_t e = 0; e < experts && first + e < rows; ++e)
        codes[bin * rows + first + e] =
            utilisationCode(static_cast<double>(values[bin * experts + e]), scale_->scale());
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
  QString source = QStringLiteral("%1:%2:%3")
                       .arg(reinterpret_cast<quintptr>(&history))
                       .arg(summary_->currentIndex())
                       .arg(static_cast<int>(scale_->scale()));
  for (const int layer : layers) source += QStringLiteral(",%1").arg(layer);
  stack_->setLayers(std::move(layers), experts, orders);
  stack_->setWindow(&window());
  stack_->setLegend(utilisationLegend(isDark(palette()), scale_->scale()));
  stack_->setSource(source, stack_->rowCount());
  stack_->setHeld(history.count() < history.steps().size());  // for logs that have a load at some steps only
  noteColumns(stack_, summary_->currentText());
  const int expert = selection_->expert();
  stack_->setCurrentRow(stack_->rowOf(selection_->layer(), expert), expert < 0 ? QString() : QString::number(expert));
}

void ExpertLoadPanel::refillMatrix() {
  if (!hasLoads()) return;
  const int rows = static_cast<int>(frame_->routers.size());
  int columns = 0;
  for (const RouterFrame& router : frame_->routers)
    columns = std::max(columns, static_cast<int>(router.tokens_per_expert.size()));
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
            utilisationCode(static_cast<double>(counts[order[column]]) * counts.size() / total, scale_->scale());
    row_ticks.push_back({static_cast<double>(row), QString::number(routerAt(row).layer)});
  }
  matrix_->setCells(rows, columns, std::move(codes));
  matrix_->setLegend(utilisationLegend(isDark(palette()), scale_->scale()));
  matrix_->setExtraMargins(
      {0, 0, matrix_->width() >= withType(kLeastForBars, fontMetrics()) ? withType(kBarsWidth, fontMetrics()) : 0, 0});
  matrix_->setRowAxis(std::move(row_ticks), "layer");
  matrix_->setColumnAxis(integerTicks(0, columns - 1, std::max(2, matrix_->width() / 60)),
                         sort_->currentIndex() == ExpertOrders::by_load ? QString("rank by load, most loaded first")
                         : sort_->currentIndex() == ExpertOrders::by_cluster
                             ? QString("experts, chosen together side by side")
                             : QString("expert"));
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
  MarginBars bars{.caption = "MaxVio by layer"};
  double most = 0;
  for (int row = 0; row < matrix_->rows(); ++row) {
    const QRectF cell = matrix_->cellRect(row, 0);
    const auto value = static_cast<double>(max_vio(std::span<const std::uint32_t>(routerAt(row).tokens_per_expert)));
    bars.bars.push_back({cell.top(), cell.bottom(), std::isnan(value) ? 0 : value});
    most = std::max(most, bars.bars.back().value);
  }
  for (MarginBar& bar : bars.bars)
    bar.strong =
        bar.value >= most || (bar.value >= static_cast<double>(kUnevenMaxVio) && bar.value >= kFarFromRest * most);
  const QRect area(cells.right() + kSpace12, cells.top(), room - withType(kBarFigure, fontMetrics()), cells.height());
  paintMarginBars(painter, area, bars, palette());
}

void ExpertLoadPanel::markCurrent() {
  int row = -1, column = -1;
  for (int i = 0; frame_ && i < static_cast<int>(order_.size()); ++i)
    if (routerAt(i).layer == selection_->layer()) row = i;
  if (row >= 0 && selection_->expert() >= 0) {
    const auto place = std::ranges::find(order_[row], selection_->expert());
    if (place != order_[row].end()) column = static_cast<int>(place - order_[row].begin());
  }
  matrix_->setCurrent(row, column);
}

QStringList ExpertLoadPanel::describe(int row, int column) const {
  if (!frame_) return {};
  const RouterFrame& router = routerAt(row);
  const int expert = expertAt(row, column);
  if (expert >= std::ssize(router.tokens_per_expert)) return {};
  const double total = std::accumulate(router.tokens_per_expert.begin(), router.tokens_per_expert.end(), 0.0);
  const double tokens = router.tokens_per_expert[expert];
  QStringList lines{
      QString("layer %1, expert %2").arg(router.layer).arg(expert),
      QString("%1 tokens, %2 of all").arg(formatCount(tokens), formatPercent(tokens / total)),
      QString("utilisation %1 (1 = fair)").arg(formatValue(utilisation(router.tokens_per_expert, expert), 3))};
  if (expert < std::ssize(router.expert_bias)) lines << QString("bias %1").arg(formatValue(router.expert_bias[expert]));
  if (expert < std::ssize(router.gate_mass))
    lines << QString("gate mass %1").arg(formatPercent(router.gate_mass[expert]));
  return lines;
}

Panel::Answer ExpertLoadPanel::answer() const {
  const History* history = selection_->history();
  if (!history || history->steps().empty() || window().layers.empty()) return {};
  return view() == over_time ? answerOverTime() : answerAtAStep();
}

// "Mostly even since step 400; expert 3 of layer 1 gets the most, 1.56 times its fair share".
Panel::Answer ExpertLoadPanel::answerOverTime() const {
  const History& history = *selection_->history();
  const LayerWindow& worst = *window().worst(&LayerWindow::max_vio);
  const QString who = QString("expert %1 of layer %2 gets the most").arg(worst.fullest).arg(worst.layer);
  const QString share = sharesText(worst.max_vio + 1);
  const auto uneven =
      std::ranges::count_if(window().layers, [](const LayerWindow& of) { return of.max_vio >= kUnevenMaxVio; });
  QString head = "Mostly even";
  if (uneven > 0) {
    head = window().layers.size() == 1 ? QString("Uneven")
                                       : QString("%1 of %2 layers are uneven").arg(uneven).arg(window().layers.size());
  } else if (selection_->following()) {
    const std::int64_t last = last_step_at_least(history, Metric::max_vio_window_max, kWholeRun, kUnevenMaxVio);
    const bool over = last >= 0 && last + kWindowSteps < history.steps().last;
    if (over) head = QString("Mostly even since step %1").arg(formatCount(last + 1));
  }
  const QString short_who = QString("expert %1 of layer %2: %3 \u00d7")
                                .arg(worst.fullest)
                                .arg(worst.layer)
                                .arg(formatValue(worst.max_vio + 1, 3));
  return {"Who gets the tokens?",
          {head + QStringLiteral("; ") + who + QStringLiteral(", ") + share +
               QString(", over %1").arg(selection_->rangeText(window().steps)),
           head + QStringLiteral("; ") + who + QStringLiteral(", ") + share, head + QStringLiteral("; ") + who,
           head + QStringLiteral("; ") + short_who, head}};
}

Panel::Answer ExpertLoadPanel::answerAtAStep() const {
  const auto frame = selection_->frame();
  if (!frame || frame->routers.empty()) return {};
  double most = -1;
  int layer = -1, silent = 0, experts = 0, uneven = 0;
  std::ptrdiff_t fullest = 0;
  for (const RouterFrame& router : frame->routers) {
    const auto& counts = router.tokens_per_expert;
    const auto value = static_cast<double>(max_vio(std::span<const std::uint32_t>(counts)));
    experts += static_cast<int>(counts.size());
    silent += static_cast<int>(std::ranges::count(counts, 0u));
    uneven += value >= kUnevenMaxVio;
    if (value > most) most = value, layer = router.layer, fullest = std::ranges::max_element(counts) - counts.begin();
  }
  if (layer < 0) return {};
  const QString who = QString("Expert %1 of layer %2 gets %3").arg(fullest).arg(layer).arg(sharesText(most + 1));
  const QString none =
      silent > 0 ? QString("; %1 of %2 get no token").arg(silent).arg(formatCount(experts)) : QString();
  const QString many = frame->routers.size() > 1 && uneven > 0
                           ? QString("; %1 of %2 layers are uneven").arg(uneven).arg(frame->routers.size())
                           : QString();
  return {"Who gets the tokens?",
          {who + many + none, who + many, who, QString("Expert %1 of layer %2").arg(fullest).arg(layer)}};
}

QString ExpertLoadPanel::csv() const {
  QString text = QStringLiteral("step,layer,expert,tokens,utilisation (1 = fair),expert_bias\n");
  const auto frame = selection_->frame();
  if (!frame) return text;
  for (const RouterFrame& router : frame->routers)
    for (std::size_t e = 0; e < router.tokens_per_expert.size(); ++e)
      text += csvRow(frame->step, router.layer, e, router.tokens_per_expert[e],
                     digits(utilisation(router.tokens_per_expert, e), 7),
                     e < router.expert_bias.size() ? QString::number(router.expert_bias[e], 'g', 7) : QString());
  return text;
}

}  // namespace moescope
