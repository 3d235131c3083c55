#include "widgets/router/expert_load_panel.h"

#include <fmt/core.h>

#include <QPainter>
#include <algorithm>

#include "core/findings/health.h"
#include "core/frame/router_stats.h"
#include "widgets/look/counted_text.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/controls.h"
#include "widgets/plots/margin_bars.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

constexpr int kBarsWidth = 130, kBarFigure = 40;  // widths of the bars beside the layers and of their figures
constexpr int kMinWidthOfBars = 460;              // width of the plot from which bars are shown
// A layer in which an expert has twice its fair share is uneven: every rank waits for the rank of that expert.
constexpr float kUnevenMaxVio = 1;    // MaxVio
constexpr int kMinPairedRow = 9;      // least height of a row of two runs
constexpr double kFarFromRest = 0.5;  // share of the largest MaxVio from which bars are strong

QString sharesText(double times) {
  return QString("%1 times its fair share").arg(formatValue(times, 3));
}

// Loads of one step in the form of a window.
RouterWindow loadsOf(const TelemetryFrame& frame) {
  RouterWindow loads;
  loads.steps = {frame.step, frame.step};
  for (const RouterFrame& router : frame.routers) {
    const auto& counts = router.tokens_per_expert;
    if (router.layer < 0 || is_missing(max_vio(counts))) continue;  // of all layers, or nothing was routed
    std::vector<float> utilisation_E;
    for (std::size_t e = 0; e < counts.size(); ++e) utilisation_E.push_back(static_cast<float>(utilisation(counts, e)));
    loads.layers.push_back(layer_window(router.layer, std::move(utilisation_E)));
  }
  return loads;
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
  connect(selection_, &Selection::timeChanged, stack_, &PlotFrame::markDirty);  // the bars end at the cursor's step
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
  keepState("steps", span_);
  keepState("extreme", summary_);
}

void ExpertLoadPanel::buildControls(View view) {
  switch_ = new ViewSwitch({"Over time", "All layers", "One layer"}, this);
  switch_->setAccessibleName("Expert load over time, of all layers at the cursor, or of one layer over time");
  switch_->setCurrent(view);
  connect(switch_, &ViewSwitch::changed, this, &ExpertLoadPanel::showView);
  layer_ = new LayerCombo(selection_, this);
  sort_ = makeChoice(
      {"by id", "by load", "by co-activation"}, "Order of experts",
      "Order of the experts of each layer: by id, from the most to the least loaded at the cursor, or so that experts "
      "chosen together are neighbours");
  span_ = makeChoice({"", ""}, "Steps", "Load of the last steps together, as in the verdict, or of the cursor's step");
  const auto name = [this] {
    const QString word = selection_->stepWord();
    const History* history = selection_->history();
    const bool has_steps = history && !history->steps().empty();
    const int loads = has_steps ? selection_->loadsIn(window_steps(*history, history->steps().last)) : 0;
    span_->setItemText(0, "last " + (loads > 0 ? countedText(loads, "load") : selection_->stepCount(kWindowSteps)));
    span_->setItemText(1, QString("one %1").arg(word));
  };
  connect(selection_, &Selection::dataChanged, this, name);
  name();
  summary_ = makeChoice({"mean", "extreme"}, "Steps that share a pixel",
                        "Where many steps share a pixel: their mean, which averages out noise, or the value farthest "
                        "from the fair share, which shows every spike but makes noisy runs look worse");
  for (QComboBox* choice : {sort_, span_, summary_})
    connect(choice, &QComboBox::currentIndexChanged, this, &ExpertLoadPanel::markDirty);
  addControl(switch_);
  addControl(layer_);
  addControl(span_);
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
    const int layer = loads_.layers[row].layer, expert = expertAt(row, column);
    if (run_of_row_[row] != selection_->run())
      return QStringList{QString("%1: expert %2 of layer %3, %4")
                             .arg(runLetter(*selection_, run_of_row_[row]))
                             .arg(expert)
                             .arg(layer)
                             .arg(sharesText(loads_.layers[row].utilisation[expert]))};
    return readout({loads_.steps.last, std::int64_t{layer}, std::int64_t{expert}}) +
           loadOfOthers(layer, expert, loads_.steps.last);
  };
  matrix_->figure = [this](int row, int column) -> std::optional<FigureTarget> {
    if (run_of_row_[row] != selection_->run()) return std::nullopt;
    return FigureTarget{.key = "utilisation",
                        .layer = loads_.layers[row].layer,
                        .expert = expertAt(row, column),
                        .step = loads_.steps.last,
                        .uses_window = !showsOneStep()};
  };
  matrix_->decorate = [this](QPainter& painter) {
    paintNumbers(painter);
    paintMaxVio(painter);
  };
  matrix_->setLegendElsewhere();
  matrix_->setHatched(kZeroLoadCode);
  connect(matrix_, &MatrixPlot::cellChosen, this, [this](int row, int column) {
    selection_->setLayer(loads_.layers[row].layer);
    selection_->setExpert(expertAt(row, column));
  });
  views_->addWidget(matrix_);
}

void ExpertLoadPanel::showView() {
  views_->setCurrentWidget(view() == all_layers ? static_cast<QWidget*>(matrix_) : stack_);
  layer_->setVisible(view() == one_layer);
  span_->setVisible(view() == all_layers);
  giveFocusTo(views_->currentWidget());
  setProperty("shows_all_runs", false);  // until the map of all layers has the rows of another run
  markDirty();
  update();
}

void ExpertLoadPanel::markDirty() {
  matrix_->markDirty();
  stack_->markDirty();
}

std::vector<int> ExpertLoadPanel::orderOf(const LayerWindow& load, int columns) {
  return orders_.orderOf(*selection_->history(), load.layer, load.utilisation, columns, sort_->currentIndex());
}

QString ExpertLoadPanel::status() const {
  const auto frame = selection_->frame();
  if (showsOneStep()) return frame ? timeStatus(frame->step, true) : QString();
  QStringList parts;
  if (view() == all_layers && !window().layers.empty()) parts << selection_->windowText(window().steps);
  const int other = view() == all_layers && run_of_row_.size() > 1 ? run_of_row_[1] : selection_->run();
  if (other < std::ssize(selection_->histories()))
    if (const QString step = ownStep(*selection_, *selection_->histories()[other]); !step.isEmpty())
      parts << runLetter(*selection_, other) + " up to " + step;
  const std::size_t shown = stack_->layers().size(), all = frame ? selection_->history()->info().moe_layers.size() : 0;
  if (view() == over_time && shown < all) parts << QString("%1 of %2 layers").arg(shown).arg(all);
  if (!selection_->following()) parts << timeStatus(selection_->step(), false);
  return parts.join(QStringLiteral(", "));
}

const RouterWindow& ExpertLoadPanel::window() const {
  const History* history = selection_->history();
  const bool one_step = showsOneStep();
  const std::int64_t step = one_step ? selection_->step() : selection_->windowStep();
  const std::uint64_t sequence = history ? history->sequence() : 0;
  if (window_.history == history && window_.sequence == sequence && window_.step == step &&
      window_.one_step == one_step)
    return window_.loads;
  const auto frame = one_step ? selection_->frame() : nullptr;
  window_ = {history, sequence, step, one_step, {}};
  if (frame) window_.loads = loadsOf(*frame);
  if (history && !one_step) window_.loads = router_window(*history, step);
  return window_.loads;
}

bool ExpertLoadPanel::hasLoads() {
  frame_.reset();
  if (!hasSteps(matrix_)) return hasSteps(stack_);  // without steps, both plots get a notice
  frame_ = selection_->frame();
  const bool any = frame_ && std::ranges::any_of(frame_->routers, [](const RouterFrame& router) {
                     return !router.tokens_per_expert.empty();
                   });
  const QString notice = any ? QString() : notInLogNotice(selection_->history()->info(), "tokens per expert");
  for (PlotFrame* plot : std::initializer_list<PlotFrame*>{matrix_, stack_}) plot->setNotice(notice);
  return any;
}

// Returns the end of the colour scale, which reaches every load that has lasted, in any layer at any step of the
// drawn runs, and all loads of a step that is shown alone.
int ExpertLoadPanel::limit() const {
  float largest = 0;
  for (const auto& run : selection_->histories()) {
    if (run->steps().empty() || (run.get() != selection_->history() && !property("shows_all_runs").toBool())) continue;
    const PyramidBin all = run->series(Metric::max_vio_window_max, kWholeRun, run->steps(), 1).front();
    if (all.finite > 0) largest = std::max(largest, all.max);
  }
  if (showsOneStep())
    for (const LayerWindow& load : window().layers) largest = std::max(largest, static_cast<float>(load.max_vio));
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
    const LayerWindow* load = window().find_layer(layer);
    const bool by_number = sort_->currentIndex() == ExpertOrders::by_id || !load;
    orders.push_back(by_number ? std::vector<int>{} : orderOf(*load, experts));
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

// Adds the rows of another run, each below that of the same layer, if all rows are high enough to be told apart.
void ExpertLoadPanel::addOtherRun() {
  run_of_row_.assign(loads_.layers.size(), selection_->run());
  const int compared = comparedRun(*selection_), place = compared == selection_->run() ? 0 : compared;
  if (place < 0 || matrix_->height() < 2 * to_int(loads_.layers.size()) * withType(kMinPairedRow, fontMetrics()))
    return;
  const History& other = *selection_->histories()[place];
  if (other.info().n_experts != selection_->history()->info().n_experts) return;
  const auto frame = selection_->frameOf(place);
  if (!frame) return;
  const RouterWindow other_window = showsOneStep() ? loadsOf(*frame) : router_window(other, frame->step);
  RouterWindow both{loads_.steps, {}};
  run_of_row_.clear();
  for (const LayerWindow& load : loads_.layers) {
    both.layers.push_back(load);
    run_of_row_.push_back(selection_->run());
    if (const LayerWindow* same_layer = other_window.find_layer(load.layer)) {
      both.layers.push_back(*same_layer);
      run_of_row_.push_back(place);
    }
  }
  loads_ = std::move(both);
}

void ExpertLoadPanel::refillMatrix() {
  if (!hasLoads()) return;
  loads_ = window();
  addOtherRun();
  const bool has_other = std::ranges::count(run_of_row_, selection_->run()) < std::ssize(run_of_row_);
  if (view() == all_layers && property("shows_all_runs").toBool() != has_other) {
    setProperty("shows_all_runs", has_other);
    update();  // repaints the header as well
  }
  const int rows = to_int(loads_.layers.size()), columns = selection_->history()->info().n_experts;
  const int limit = this->limit();
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(rows) * columns, kNoDataCode);
  order_.assign(rows, {});
  std::vector<Tick> row_ticks;
  for (int row = 0; row < rows; ++row) {
    const LayerWindow& load = loads_.layers[row];
    order_[row] = orderOf(load, columns);
    for (int column = 0; column < columns; ++column)
      if (const int expert = expertAt(row, column); expert < std::ssize(load.utilisation))
        codes[static_cast<std::size_t>(row) * columns + column] = utilisationCode(load.utilisation[expert], limit);
    const QString letter = has_other ? ' ' + runLetter(*selection_, run_of_row_[row]) : QString();
    row_ticks.push_back({static_cast<double>(row), QString::number(load.layer) + letter});
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
  matrix_->paintTexts(painter, matrix_->sizeFor(QStringLiteral("0.00"), 6), [this](int row, int column) {
    const auto& loads = loads_.layers[row].utilisation;
    const int expert = expertAt(row, column);
    return expert < std::ssize(loads) && loads[expert] > 0 ? QString::number(loads[expert], 'f', 2) : QString();
  });
}

// Paints uneven layers as strong bars, except those that are far from the most uneven one, so that this one stands out
// among many layers.
void ExpertLoadPanel::paintMaxVio(QPainter& painter) const {
  const QRect cells = matrix_->cellsRect();
  const int room = matrix_->width() - cells.right() - kSpace12;
  if (room < withType(kBarsWidth, fontMetrics()) - kSpace12) return;
  MarginBars bars{.caption = QString("MaxVio")};
  double largest = 0;
  for (int row = 0; row < matrix_->rows(); ++row) {
    const QRectF cell = matrix_->cellRect(row, 0);
    bars.bars.push_back({cell.top(), cell.bottom(), loads_.layers[row].max_vio});
    largest = std::max(largest, bars.bars.back().value);
  }
  for (MarginBar& bar : bars.bars) bar.strong = bar.value >= kUnevenMaxVio && bar.value >= kFarFromRest * largest;
  const QRect area(cells.right() + kSpace12, cells.top(), room - withType(kBarFigure, fontMetrics()), cells.height());
  paintMarginBars(painter, area, bars, palette());
}

void ExpertLoadPanel::markCurrent() {
  int row = -1, column = -1;
  for (int i = 0; i < to_int(order_.size()); ++i)
    if (loads_.layers[i].layer == selection_->layer() && run_of_row_[i] == selection_->run()) row = i;
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
  return lines << loadOfOthers(layer, expert, step);
}

// "B: 1.02 times its fair share" for the expert of the same number; empty: no other run has it.
QStringList ExpertLoadPanel::loadOfOthers(int layer, int expert, std::int64_t step) const {
  const auto load_of = [&](const History& run) {
    const std::int64_t paired = selection_->stepOf(run, step);
    if (expert < 0 || expert >= run.info().n_experts || index_in(run.info().moe_layers, layer) < 0) return QString();
    const auto row = run.utilisation(layer, {paired, paired}, 1, Summary::mean);
    return expert < std::ssize(row) && std::isfinite(row[expert])
               ? QString("%1 \u00d7 fair share").arg(formatValue(row[expert], 3))
               : QString();
  };
  const QString text_of_others = textOfOthers(*selection_, load_of, step);
  return text_of_others.isEmpty() ? QStringList() : QStringList(text_of_others + QString(" at this step"));
}

// Returns mean and extreme of the column under the mouse as text; empty if it has no two steps.
QString ExpertLoadPanel::columnText(int layer, int expert, std::int64_t step) const {
  const std::int64_t steps = stack_->stepsPerColumn(), first = step / steps * steps;
  const StepRange column{first, first + steps - 1};
  if (selection_->history()->steps_in(column).size() <= 1) return {};
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
  return window().layers.empty() ? Answer() : answerOfLayers();
}

// "Mostly even since step 400; expert 3 of layer 1 gets the most, 1.56 times its fair share".
Panel::Answer ExpertLoadPanel::answerOfLayers() const {
  const History& history = *selection_->history();
  const LayerWindow& worst = *window().worst(&LayerWindow::max_vio);
  if (worst.max_vio <= 0) return {"Who gets the tokens?", {evenText(*selection_->history())}};
  const QString expert_text = QString("expert %1 of layer %2 gets the most").arg(worst.fullest).arg(worst.layer);
  const QString share = sharesText(worst.max_vio + 1);
  const auto uneven_in = [](const std::vector<LayerWindow>& layers) {
    return std::ranges::count_if(layers, [](const LayerWindow& layer) { return layer.max_vio >= kUnevenMaxVio; });
  };
  const auto uneven = uneven_in(window().layers);
  QString head = worst.max_vio < kUnevenMaxVio / 2 ? "Mostly even" : "Slightly uneven";
  if (uneven > 0) {
    const QString verb = uneven == 1 ? "is" : "are", layers = QString::number(window().layers.size());
    head = layers == "1" ? QString("Uneven")
                         : QString("%1 of %2 layers %3 uneven").arg(QString::number(uneven), layers, verb);
  } else if (selection_->following() && !showsOneStep()) {
    const std::int64_t last = last_step_at_least(history, Metric::max_vio_window_max, kWholeRun, kUnevenMaxVio);
    const bool has_ended = last >= 0 && last + kWindowSteps < history.steps().last;
    if (has_ended) head += QString(" since step %1").arg(formatCount(last + 1));
  }
  const QString text_of_others = textOfOthers(*selection_, [&](const History& run) {
    const auto layers = router_window(run, selection_->shownStepOf(run)).layers;
    if (layers.empty() || uneven_in(layers) == 0) return layers.empty() ? QString() : QString("mostly even");
    return QString("%1 of %2 layers uneven").arg(uneven_in(layers)).arg(layers.size());
  });
  const QString after_run = text_of_others.isEmpty() ? QString() : QStringLiteral("; ") + text_of_others;
  if (!after_run.isEmpty())
    head = runLetter(*selection_, selection_->run()) + QStringLiteral(": ") + head.left(1).toLower() + head.mid(1);
  const QString short_who = QString("expert %1 of layer %2: %3 \u00d7 fair share")
                                .arg(worst.fullest)
                                .arg(worst.layer)
                                .arg(formatValue(worst.max_vio + 1, 3));
  const QString expert_sentence = head + QStringLiteral("; ") + expert_text,
                how_much = expert_sentence + QStringLiteral(", ") + share;
  const QString when = QString(showsOneStep() ? ", at %1" : ", over %1").arg(selection_->windowText(window().steps));
  return {"Who gets the tokens?",
          {how_much + when + after_run, how_much + after_run, expert_sentence + after_run,
           head + QStringLiteral("; ") + short_who + after_run, head + after_run}};
}

// "4 experts take 46 % of the token copies, 171 of 256 get none", or the expert with the most tokens.
// Speaks of the same steps as MaxVio beside the map.
Panel::Answer ExpertLoadPanel::answerOfLayer() const {
  const LayerWindow* load = window().find_layer(selection_->layer());
  if (!load) return {};
  const QString question = QString("Who gets the tokens of layer %1?").arg(load->layer);
  if (load->max_vio <= 0) return {question, {evenText(*selection_->history())}};
  const FullestExperts fullest = fullest_experts(load->utilisation);
  const QString load_text = QString("%1 \u00d7 fair share").arg(formatValue(load->max_vio + 1, 3));
  QString first = QString("Expert %1 gets the most, %2").arg(load->fullest).arg(sharesText(load->max_vio + 1));
  if (fullest.experts.size() > 1)
    first = QString("%1 experts take %2 % of the token copies, at most ")
                .arg(fullest.experts.size())
                .arg(100 * fullest.share, 0, 'f', 0) +
            load_text;
  if (load->silent > 0)
    first += QString(load->silent == 1 ? ", %1 of %2 gets none" : ", %1 of %2 get none")
                 .arg(load->silent)
                 .arg(load->utilisation.size());
  const QString steps = QString(", over %1").arg(selection_->windowText(window().steps));
  return {question, {first + steps, first, "Fullest: " + load_text + steps, "Fullest: " + load_text}};
}

ValueTable ExpertLoadPanel::table() const {
  if (view() == one_layer) return tableOfLayer();
  if (view() == all_layers && !showsOneStep()) return tableOfWindow();
  const auto frame = selection_->frame();
  return expertTable(*selection_, frame.get());
}

// A row for each expert of each layer.
ValueTable ExpertLoadPanel::tableOfWindow() const {
  const QString load = QString("load over %1").arg(span_->currentText());
  ValueTable table({{"last " + selection_->stepWord().toStdString()},
                    {"layer"},
                    {"expert"},
                    {load.toStdString(), kUtilisationUnit, 3}});
  for (const LayerWindow& layer : window().layers)
    for (std::size_t e = 0; e < layer.utilisation.size(); ++e)
      table.add(window().steps.last, layer.layer, e, layer.utilisation[e]);
  return table;
}

// A row for each step, a column for each expert.
ValueTable ExpertLoadPanel::tableOfLayer() const {
  std::vector<ValueColumn> columns{{"step"}, {"layer"}};
  const History* history = selection_->history();
  const int experts = history ? history->info().n_experts : 0;
  for (int e = 0; e < experts; ++e) columns.push_back({fmt::format("load of expert {}", e), kUtilisationUnit});
  ValueTable table(std::move(columns));
  if (experts == 0 || selection_->range().empty()) return table;
  const std::vector<std::int64_t> steps = history->steps_in(selection_->range());
  const auto values = history->utilisation(selection_->layer(), edges_of(steps), summary());
  for (std::size_t i = 0; i < steps.size(); ++i)
    table.add_series({steps[i], std::int64_t{selection_->layer()}}, std::span(values).subspan(i * experts, experts));
  return table;
}

}  // namespace moescope
