#include "widgets/router/load_over_time_panel.h"

#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/frame/router_stats.h"
#include "widgets/look/fitted_text.h"
#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"
#include "widgets/plots/color_scale.h"
#include "widgets/plots/matrix_plot.h"

namespace moescope {
namespace {

constexpr double kHotLoad = 2;  // load from which bars other than the first are emphasised

constexpr double kTakesMuch = 4;          // load, in fair shares, from which the answer names experts together
constexpr int kLeastWidthWithBars = 520;  // width of the panel from which bars are shown

}  // namespace

FullestExperts::FullestExperts(QWidget* parent) : PlotFrame(parent) {
  setFocusPolicy(Qt::NoFocus);
  setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Expanding);
  setAccessibleName("Fullest experts");
}

QSize FullestExperts::sizeHint() const {
  return {fontMetrics().horizontalAdvance("fullest now, \u00d7 fair share"), withType(100)};
}

void FullestExperts::setRows(std::vector<Row> rows) {
  rows_ = std::move(rows);
  QStringList spoken;
  for (const Row& row : rows_) spoken << QString("expert %1: %2").arg(row.expert).arg(formatValue(row.load, 3));
  setAccessibleDescription(spoken.join(QStringLiteral("; ")));
}

void FullestExperts::setWithoutTokens(int experts, int of) {
  without_ = experts;
  of_ = of;
}

int FullestExperts::rowsThatFit() const {
  constexpr int kMost = 4, kLinesBelow = 2;
  return std::clamp((height() - margins().top()) / rowHeight() - kLinesBelow, 1, kMost);
}

void FullestExperts::paintStatic(QPainter& painter) {
  const QStringList titles{"fullest now, \u00d7 fair share", "fullest, \u00d7 fair", "fullest"};
  painter.setPen(mutedText(palette()));
  painter.drawText(QRect(0, 0, width(), fontMetrics().height()), Qt::AlignLeft,
                   fittingText(titles, fontMetrics(), width()));
}

void FullestExperts::paintData(QPainter& painter) {
  const QFont usual = painter.font(), strong = semibold(usual);
  const QFontMetrics bold(strong);
  int names = 0, figures = 0;
  for (const Row& row : rows_) {
    names = std::max(names, fontMetrics().horizontalAdvance(QString::number(row.expert)));
    figures = std::max(figures, bold.horizontalAdvance(formatValue(row.load, 3)));
  }
  const double longest = rows_.empty() ? 1 : std::max(1e-9, rows_.front().load);
  const int left = names + kSpace8, room = std::max(4, width() - left - figures - kSpace4);
  int y = margins().top();
  for (const Row& row : rows_) {
    const bool hot = &row == rows_.data() || row.load >= kHotLoad;
    painter.setPen(mutedText(palette()));
    painter.drawText(QRect(0, y, names + 1, rowHeight()), Qt::AlignRight | Qt::AlignVCenter,
                     QString::number(row.expert));
    const int length = std::max(1, static_cast<int>(row.load / longest * room));
    painter.fillRect(QRect(left, y + 3, length, rowHeight() - 6),
                     QColor(hot ? colors(palette()).strong_bar : colors(palette()).plain_bar));
    painter.setFont(hot ? strong : usual);
    painter.setPen(palette().text().color());
    painter.drawText(QRect(left + length + kSpace4, y, figures + 1, rowHeight()), Qt::AlignLeft | Qt::AlignVCenter,
                     formatValue(row.load, 3));
    painter.setFont(usual);
    y += rowHeight();
  }
  if (without_ > 0) paintWithout(painter, y + kSpace4);
}

void FullestExperts::paintWithout(QPainter& painter, int top) const {
  const QFontMetrics metrics = fontMetrics();
  const QString text = fittingText(
      {QString("%1 of %2 get none").arg(without_).arg(of_), QString("%1 get none").arg(without_)}, metrics, width());
  painter.setPen(palette().text().color());
  painter.drawText(QRect(0, top, width(), metrics.height()), Qt::AlignLeft | Qt::AlignVCenter, text);
  const int line = metrics.height(), side = withType(10);
  const QRect swatch(0, top + line + (line - side) / 2, side, side);
  if (swatch.bottom() > height()) return;
  painter.fillRect(swatch, QColor(colors(palette()).zero_load));
  painter.fillRect(swatch, fineHatch(hatchOnZeroLoad(dark())));
  painter.setPen(mutedText(palette()));
  painter.drawText(QRect(side + kSpace8, top + line, width(), line), Qt::AlignLeft | Qt::AlignVCenter, "no tokens");
}

int FullestExperts::rowAt(QPoint position) const {
  const int row = position.y() < margins().top() ? -1 : (position.y() - margins().top()) / rowHeight();
  return row < static_cast<int>(rows_.size()) ? row : -1;
}

QStringList FullestExperts::readoutAt(QPoint position) const {
  const int row = rowAt(position);
  if (row < 0) return {};
  const Row& at = rows_[row];
  return {QString("expert %1: %2 \u00d7 its fair share").arg(at.expert).arg(formatValue(at.load, 3))};
}

void FullestExperts::mousePressEvent(QMouseEvent* event) {
  const int row = rowAt(event->pos());
  if (event->button() == Qt::LeftButton && row >= 0) emit expertChosen(rows_[row].expert);
}

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
  plot_->setHeld(true);  // a log may have loads at some steps only
  plot_->setWeights(utilisationWeights());
  plot_->setHatched(kZeroLoadCode);
  connect(plot_, &TimeHeatMap::rowClicked, selection_, &Selection::setExpert);
  sort_ = makeChoice({"by id", "by load", "by cluster"}, "Order of experts",
                     "Order of the experts from top to bottom: by id, or from the most to the least loaded at the "
                     "cursor's step");
  summary_ = makeChoice({"mean", "extreme"}, "Steps that share a pixel",
                        "Where many steps share a pixel: their mean, which shows lasting differences and averages out "
                        "noise; or the value farthest from the fair share, which shows every spike but makes noisy "
                        "runs look worse the farther you zoom out. With one step per pixel both are equal");
  for (QComboBox* choice : {sort_, summary_})
    connect(choice, &QComboBox::currentIndexChanged, plot_, &PlotFrame::markDirty);
  connect(selection_, &Selection::timeChanged, plot_, [this] {
    if (sort_->currentIndex() == ExpertOrders::by_load) plot_->markDirty();
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
  frame_ = selection_->frame();
  const RouterFrame* found = find_router(frame_.get(), selection_->layer());
  return found && !found->tokens_per_expert.empty() ? found : nullptr;
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

// "4 experts take 46 % of the assignments, 171 of 256 get none", or the expert with the most tokens.
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

void LoadOverTimePanel::refill() {
  const History* history = selection_->history();
  if (!hasSteps(plot_)) return;
  const int experts = history->info().n_experts;
  if (experts <= 0 || !history->frame_at(history->steps().last))
    return plot_->setNotice(notInLogNotice(history->info(), "tokens per expert"));
  plot_->setNotice({});
  plot_->setLegend(utilisationLegend(isDark(palette()), scale_->scale()));
  const RouterFrame* now = router();
  const std::span<const std::uint32_t> loads = now ? now->tokens_per_expert : std::span<const std::uint32_t>();
  plot_->setRowOrder(orders_.of(*history, selection_->layer(), loads, experts, sort_->currentIndex()));
  plot_->setRowAxis(integerTicks(0, experts - 1, std::max(2, plot_->height() / 26)),
                    sort_->currentIndex() == ExpertOrders::by_load      ? QString("experts, most loaded first")
                    : sort_->currentIndex() == ExpertOrders::by_cluster ? QString("experts by cluster")
                                                                        : QString("expert"),
                    false);
  plot_->setSource(QStringLiteral("%1:%2:%3:%4")
                       .arg(reinterpret_cast<quintptr>(history))
                       .arg(selection_->layer())
                       .arg(summary_->currentIndex())
                       .arg(static_cast<int>(scale_->scale())),
                   experts);
  noteColumns(plot_, summary_->currentText());
  plot_->setCurrentRow(selection_->expert(),
                       selection_->expert() < 0 ? QString() : QString::number(selection_->expert()));
}

QStringList LoadOverTimePanel::describe(int expert, std::int64_t step) const {
  QStringList lines = loadReadout(*selection_, step, selection_->layer(), expert);
  if (const QString column = columnText(expert, step); !lines.isEmpty() && !column.isEmpty()) lines << column;
  return lines;
}

// Returns mean and extreme of the column under the mouse as text; empty if the column is one step.
QString LoadOverTimePanel::columnText(int expert, std::int64_t step) const {
  const std::int64_t steps = plot_->stepsPerColumn(), first = step / steps * steps;
  if (steps <= 1) return {};
  const StepRange column{first, first + steps - 1};
  const auto value = [&](Summary summary) {
    const auto row = selection_->history()->utilisation(selection_->layer(), column, 1, summary);
    return formatValue(expert < std::ssize(row) ? row[expert] : kNoValue, 3);
  };
  return QString("its column, steps %1 to %2: mean %3, extreme %4")
      .arg(formatCount(column.first), formatCount(column.last), value(Summary::mean), value(Summary::farthest));
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
