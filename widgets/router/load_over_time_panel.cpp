#include "widgets/router/load_over_time_panel.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/frame/router_stats.h"
#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"
#include "widgets/plots/matrix_plot.h"
#include "widgets/router/expert_load_panel.h"

namespace moescope {
namespace {

constexpr double kTakesMuch = 4;          // load, in fair shares, from which experts are named together in the answer
constexpr int kLeastWidthWithBars = 520;  // width of the panel from which bars are shown

}  // namespace

LoadOverTimePanel::LoadOverTimePanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Load over time", Provenance::measured_here, parent) {
  plot_ = new TimeHeatMap(selection, this);
  plot_->refill = [this] { refill(); };
  plot_->describe = [this](int expert, std::int64_t step) { return describe(expert, step); };
  plot_->figure = [this](int expert, std::int64_t step) {
    return FigureTarget{.key = "utilisation", .layer = selection_->layer(), .expert = expert, .step = step};
  };
  plot_->fetch = [this](StepRange range, int bins) {
    const auto values = selection_->history()->utilisation(selection_->layer(), range, bins, summary());
    std::vector<std::uint8_t> codes(values.size());
    std::ranges::transform(values, codes.begin(),
                           [scale = scale_->scale()](float u) { return utilisationCode(u, scale); });
    return codes;
  };
  plot_->setHeld(true);  // a log may have loads on some steps only
  plot_->setWeights(utilisationWeights());
  plot_->setHatched(kZeroLoadCode);
  connect(plot_, &TimeHeatMap::rowClicked, selection_, &Selection::setExpert);
  sort_ = makeChoice({"by id", "by load", "by cluster"}, "Order of experts",
                     "Order of the experts from top to bottom: by id, or from the most to the least loaded at the "
                     "cursor's step");
  summary_ = makeChoice(
      {"mean", "extreme"}, "Steps that share a pixel",
      "Where many steps share a pixel: their mean, which keeps what lasts and averages out noise; or the value "
      "farthest from fair, which keeps every spike but makes noisy runs look worse the farther you zoom out. With "
      "one step per pixel both are the same");
  for (QComboBox* choice : {sort_, summary_})
    connect(choice, &QComboBox::currentIndexChanged, plot_, &PlotFrame::markDirty);
  connect(selection_, &Selection::timeChanged, plot_, [this] {
    if (sort_->currentIndex() == 1) plot_->markDirty();
  });
  addControl(new LayerCombo(selection, this));
  addControl(sort_);
  addControl(summary_);
  scale_ = new LoadScaleButton(this);
  connect(scale_, &LoadScaleButton::changed, plot_, &PlotFrame::markDirty);
  addControl(scale_);
  showAnswers([this] { return utilisationLegend(isDark(palette()), scale_->scale()); });
  plot_->setLegendElsewhere();
  addViews();
  keepState("sort", sort_);
  keepState("extreme", summary_);
  keepState(
      "scale", [this] { return static_cast<int>(scale_->scale()); },
      [this](const QVariant& state) { scale_->setScale(state.toInt()); });
}

void LoadOverTimePanel::addViews() {
  auto* body = new QWidget(this);
  auto* row = plainRow(body, kSpace12);
  row->addWidget(plot_, 1);
  fullest_ = new FullestExperts(body);
  fullest_->refill = [this] { refillFullest(); };
  connect(fullest_, &FullestExperts::expertChosen, selection_, &Selection::setExpert);
  followSelection(fullest_);
  row->addWidget(fullest_);
  plot_->setAccessibleName(title());
  addBody(body);
  giveFocusTo(plot_);
}

// Hides the bars beside the map in a narrow panel.
void LoadOverTimePanel::resizeEvent(QResizeEvent* event) {
  Panel::resizeEvent(event);
  fullest_->setVisible(width() >= withType(kLeastWidthWithBars, fontMetrics()));
}

const RouterFrame* LoadOverTimePanel::router() const {
  frame_ = selection_->history() ? selection_->frame() : nullptr;
  if (!frame_) return nullptr;
  const auto found = std::ranges::find(frame_->routers, selection_->layer(), &RouterFrame::layer);
  return found == frame_->routers.end() || found->tokens_per_expert.empty() ? nullptr : &*found;
}

void LoadOverTimePanel::refillFullest() {
  const RouterFrame* now = router();
  fullest_->setNotice(now ? QString() : QString(QChar(u' ')));
  if (!now) return;
  const auto& counts = now->tokens_per_expert;
  std::vector<int> order(counts.size());
  std::iota(order.begin(), order.end(), 0);
  const auto rows = std::min<std::size_t>(counts.size(), static_cast<std::size_t>(fullest_->rowsThatFit()));
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(rows), order.end(),
                    [&](int a, int b) { return counts[std::size_t(a)] > counts[std::size_t(b)]; });
  std::vector<FullestExperts::Row> fullest;
  for (std::size_t i = 0; i < rows; ++i)
    fullest.push_back({order[i], utilisation(counts, static_cast<std::size_t>(order[i]))});
  fullest_->setRows(std::move(fullest));
  fullest_->setWithoutTokens(static_cast<int>(std::ranges::count(counts, 0u)), static_cast<int>(counts.size()));
}

// "4 experts take 46 % of the assignments, 171 of 256 get none", or who has the most.
Panel::Answer LoadOverTimePanel::answer() const {
  const RouterFrame* now = router();
  if (!now) return {};
  const auto& counts = now->tokens_per_expert;
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  if (total <= 0) return {};
  const double fair = total / static_cast<double>(counts.size());
  int hot = 0;
  double of_hot = 0;
  for (const std::uint32_t n : counts)
    if (n >= kTakesMuch * fair) ++hot, of_hot += n;
  const auto without = std::ranges::count(counts, 0u);
  const QString none = without == 0 ? QString() : QString("%1 of %2 get none").arg(without).arg(counts.size());
  const auto most = std::ranges::max_element(counts);
  const QString load = formatValue(*most / fair, 3);
  QString first = QString("Expert %1 gets the most, %2 \u00d7 its fair share").arg(most - counts.begin()).arg(load);
  if (hot > 1) first = QString("%1 experts take %2 of the assignments").arg(hot).arg(formatPercent(of_hot / total));
  const QString question = QString("Who gets the tokens of layer %1?").arg(now->layer);
  if (none.isEmpty()) return {question, {first, QString("at most %1 \u00d7 fair").arg(load)}};
  return {question, {first + QStringLiteral(", ") + none, first, none}};
}

// Order of the experts; empty: by id.
std::vector<int> LoadOverTimePanel::order() {
  const History& history = *selection_->history();
  if (sort_->currentIndex() == by_cluster) {
    const std::vector<int>& order = clusters_.of(history, selection_->layer());
    return std::ssize(order) == history.info().n_experts ? order : std::vector<int>{};
  }
  const auto frame = selection_->frame();
  if (sort_->currentIndex() == 0 || !frame) return {};
  const auto router = std::ranges::find(frame->routers, selection_->layer(), &RouterFrame::layer);
  if (router == frame->routers.end()) return {};
  const auto& counts = router->tokens_per_expert;
  if (std::ssize(counts) != history.info().n_experts) return {};
  std::vector<int> order(counts.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater{}, [&](int e) { return counts[static_cast<std::size_t>(e)]; });
  return order;
}

QString LoadOverTimePanel::status() const {
  return timeStatus(selection_->step(), true);
}

void LoadOverTimePanel::refill() {
  const History* history = selection_->history();
  if (!hasSteps(plot_)) return;
  const int experts = history->info().n_experts;
  if (experts <= 0 || !history->frame_at(history->steps().last))
    return plot_->setNotice(notInLogNotice(history->info(), "tokens per expert"));
  plot_->setNotice({});
  plot_->setLegend(utilisationLegend(isDark(palette()), scale_->scale()));
  plot_->setRowOrder(order());
  plot_->setRowAxis(integerTicks(0, experts - 1, std::max(2, plot_->height() / 26)),
                    sort_->currentIndex() == by_load      ? QString("experts, most loaded first")
                    : sort_->currentIndex() == by_cluster ? QString("experts by cluster")
                                                          : QString("expert"),
                    false);
  plot_->setSource(QStringLiteral("%1:%2:%3:%4")
                       .arg(reinterpret_cast<quintptr>(history))
                       .arg(selection_->layer())
                       .arg(summary_->currentIndex())
                       .arg(static_cast<int>(scale_->scale())),
                   experts);
  const std::int64_t steps = plot_->stepsPerColumn();
  const QString note =
      summary() == Summary::mean ? QString("mean of %1 per column") : QString("extreme of %1 per column");
  const QString count = formatCount(static_cast<double>(steps));
  plot_->setStepNotes(steps > 1 ? QStringList{note.arg(count), QString("%1 per column").arg(count)} : QStringList());
  plot_->setCurrentRow(selection_->expert(),
                       selection_->expert() < 0 ? QString() : QString::number(selection_->expert()));
}

QStringList LoadOverTimePanel::describe(int expert, std::int64_t step) const {
  const auto frame = selection_->history()->frame_at(step);
  if (!frame) return {};
  const auto router = std::ranges::find(frame->routers, selection_->layer(), &RouterFrame::layer);
  if (router == frame->routers.end() || expert >= std::ssize(router->tokens_per_expert)) return {};
  QStringList lines{QString("%1 %2, layer %3, expert %4")
                        .arg(selection_->stepWord(), formatCount(frame->step))
                        .arg(router->layer)
                        .arg(expert),
                    QString("%1 tokens, utilisation %2")
                        .arg(formatCount(router->tokens_per_expert[expert]),
                             formatValue(utilisation(router->tokens_per_expert, expert), 3))};
  if (const QString column = columnText(expert, step); !column.isEmpty()) lines << column;
  return lines;
}

// Text with mean and extreme of the column under the mouse; empty if the column is one step.
QString LoadOverTimePanel::columnText(int expert, std::int64_t step) const {
  const std::int64_t steps = plot_->stepsPerColumn(), first = step / steps * steps;
  if (steps <= 1) return {};
  const StepRange column{first, first + steps - 1};
  const auto value = [&](Summary summary) {
    const auto row = selection_->history()->utilisation(selection_->layer(), column, 1, summary);
    return static_cast<std::size_t>(expert) < row.size() ? row[static_cast<std::size_t>(expert)] : kNoValue;
  };
  return QString("its column, steps %1 to %2: mean %3, extreme %4")
      .arg(formatCount(static_cast<double>(column.first)), formatCount(static_cast<double>(column.last)),
           formatValue(static_cast<double>(value(Summary::mean)), 3),
           formatValue(static_cast<double>(value(Summary::farthest)), 3));
}

QString LoadOverTimePanel::csv() const {
  QString text = QStringLiteral("step,layer");
  const History* history = selection_->history();
  if (!history || selection_->range().empty()) return text + QLatin1Char('\n');
  const std::vector<std::int64_t> steps = history->steps_in(selection_->range());
  const int experts = history->info().n_experts;
  for (int e = 0; e < experts; ++e) text += QStringLiteral(",utilisation of expert %1 (1 = fair)").arg(e);
  text += QLatin1Char('\n');
  const auto values = history->utilisation(selection_->layer(), edges_of(steps), summary());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    text += QStringLiteral("%1,%2").arg(steps[i]).arg(selection_->layer());
    for (int e = 0; e < experts; ++e) {
      const float value = values[i * static_cast<std::size_t>(experts) + static_cast<std::size_t>(e)];
      text += QLatin1Char(',') + (std::isnan(value) ? QString() : QString::number(value, 'g', 7));
    }
    text += QLatin1Char('\n');
  }
  return text;
}

}  // namespace moescope
