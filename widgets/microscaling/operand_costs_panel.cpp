#include "widgets/microscaling/operand_costs_panel.h"

#include <QHeaderView>
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/findings/comparison/verdict.h"
#include "widgets/look/counted_text.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/microscaling/tables.h"
#include "widgets/panel/controls.h"
#include "widgets/panel/tensor_text.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {

namespace {

using Scope = PrecisionTwin::Scope;

QString layersOf(const PrecisionTwin& twin) {
  if (twin.scope == Scope::all_layers) return QString("all layers");
  return twin.layer < 0 ? QString() : layerName(twin.layer);
}

// "layer 3, routed experts, x".
QString fullName(const PrecisionTwin& twin) {
  if (twin.scope == Scope::all_operands) return QString("all operands");
  const QString layers = layersOf(twin);
  return (layers.isEmpty() ? layers : layers + QStringLiteral(", ")) + gemmClassLabel(twin.gemm_class) +
         QStringLiteral(", ") + QLatin1String(operand_name(twin.operand));
}

QString interval(const FigureOfPieces& figure, const QString& mean, double factor = 1) {
  if (std::isnan(figure.interval)) return mean;
  return mean + QStringLiteral(" \u00b1 ") + inPrint(QString::number(factor * figure.interval, 'g', 2));
}

QString divergenceText(const FigureOfPieces& figure) {
  return interval(figure, inPrint(QString::number(figure.mean, 'g', 3)));
}

QString lossText(const FigureOfPieces& figure) {
  return interval(figure, signedText(figure.mean));
}

// "Published recipes mxfp8_nvidia and torchtitan_mxfp8 stay within 0.25 % of the loss"; empty if no published recipe
// was measured.
QString fitText(const PrecisionScan& scan) {
  QStringList within;
  for (const PublishedFit& fit : scan.published)
    if (fit_of(fit, scan.loss, kRelevantGap) == Fit::within) within << QString::fromStdString(fit.name);
  if (scan.published.empty()) return {};
  const QString target = QString("within %1 of the loss").arg(formatPercent(kRelevantGap));
  if (within.isEmpty()) return QString("No published recipe is known to stay %1").arg(target);
  const QString last = within.takeLast();
  return within.isEmpty()
             ? QString("Published recipe %1 stays %2").arg(last, target)
             : QString("Published recipes %1 and %2 stay %3").arg(within.join(QStringLiteral(", ")), last, target);
}

bool toldApart(const FigureOfPieces& behind) {
  return behind.mean > behind.interval;  // false if the interval is NaN
}

}  // namespace

std::vector<Recipe> forwardRecipes() {
  std::vector<Recipe> found;
  const auto are_equal = [](Recipe a, Recipe b) {
    return std::ranges::all_of(std::array{OperandRole::x, OperandRole::w}, [&](OperandRole operand) {
      return recipe_format(a, Direction::forward, operand) == recipe_format(b, Direction::forward, operand);
    });
  };
  for (const RecipeInfo& info : recipes())
    if (info.recipe != Recipe::fp32 &&
        std::ranges::none_of(found, [&](Recipe before) { return are_equal(before, info.recipe); }))
      found.push_back(info.recipe);
  return found;
}

void fillTwins(QStandardItemModel& model, const PrecisionScan& scan) {
  beginTable(
      model,
      {{"Operand", "Layer, class and operand; only this operand was rounded"},
       {"Divergence, nats",
        "Kullback-Leibler divergence from the predictions in FP32, nats/token, measured, with a 95 % interval over "
        "pieces of text"},
       {"Loss change, nats",
        "Change of the cross-entropy, nats/token, measured, with a 95 % interval over pieces of text"},
       {"Routing flips", "Share of tokens with a changed set of experts, mean over layers, measured"}});
  const double largest = scan.twins.empty() ? 0 : scan.twins.front().divergence.mean;
  for (const PrecisionTwin& twin : scan.twins) {
    const QString tip = twin.behind.mean > 0 && !toldApart(twin.behind)
                            ? QString("Not told apart from the operand with the largest divergence of its kind")
                            : fullName(twin);
    appendOperand(model,
                  {textItem(fullName(twin), tip), figureItem(divergenceText(twin.divergence), twin.divergence.mean),
                   figureItem(lossText(twin.loss_change), twin.loss_change.mean),
                   figureItem(formatPercent(twin.flips.mean), twin.flips.mean)},
                  largest > 0 ? twin.divergence.mean / largest : 0);
  }
  for (const PublishedFit& fit : scan.published) {
    const QString tip =
        QString(
            "Forward pass with the operands that this published recipe rounds; the gate is in FP32. A "
            "loss change of %1 nats/token (%2 of the loss) matters; the change of this recipe: %3")
            .arg(inPrint(QString::number(kRelevantGap * scan.loss, 'g', 2)), formatPercent(kRelevantGap),
                 QLatin1String(to_text(fit_of(fit, scan.loss, kRelevantGap))));
    appendOperand(model,
                  {textItem(QString("recipe %1").arg(QString::fromStdString(fit.name)), tip),
                   figureItem(divergenceText(fit.divergence), fit.divergence.mean),
                   figureItem(lossText(fit.loss_change), fit.loss_change.mean), new QStandardItem()},
                  largest > 0 ? std::min(1.0, fit.divergence.mean / largest) : 0);
  }
}

QStringList twinsAnswers(const PrecisionScan& scan) {
  const PrecisionTwin* worst = scan.costliest();
  if (!worst) return {};
  const QString operand =
      QString("%1 of %2").arg(QLatin1String(operand_name(worst->operand)), gemmClassLabel(worst->gemm_class));
  const QString operand_text =
      (worst->layer < 0 ? operand : QString("%1 in %2").arg(operand, layerName(worst->layer))) +
      QString(" is the most sensitive");
  const QString figure = QString("%1: divergence %2 nats/token").arg(operand_text, divergenceText(worst->divergence));
  const auto near = std::ranges::count_if(scan.twins, [&](const PrecisionTwin& twin) {
    return twin.scope == Scope::one_layer && &twin != worst && !toldApart(twin.behind);
  });
  const QString undecided = near == 0 ? QString() : QString("; %1 not told apart from it").arg(near);
  const PrecisionTwin& all = scan.twins.front();
  const QString together = QString("%1%2. All operands together: %3, loss %4")
                               .arg(figure, undecided, divergenceText(all.divergence), lossText(all.loss_change));
  const QString fit = fitText(scan);
  QStringList answers{together, figure + undecided, figure, operand_text};
  if (!fit.isEmpty())
    answers =
        QStringList{QString("%1. %2").arg(together, fit), QString("%1%2. %3").arg(figure, undecided, fit)} + answers;
  return answers;
}

ValueTable twinsTable(const PrecisionScan& scan) {
  std::vector<ValueColumn> columns{{"recipe"}, {"layers"}, {"class"}, {"operand"}};
  for (const auto& [name, unit] : {std::pair{"divergence", "nats/token"},
                                   {"behind the first of its kind", "nats/token"},
                                   {"loss change", "nats/token"},
                                   {"tokens with other experts", "share"}}) {
    columns.push_back({name, unit});
    columns.push_back({std::string("interval of: ") + name, unit});
  }
  ValueTable table(std::move(columns));
  const auto add = [&](const std::string& recipe, const std::array<std::string, 3>& place,
                       const std::array<FigureOfPieces, 4>& figures) {
    std::vector<TableValue> row{recipe, place[0], place[1], place[2]};
    for (const FigureOfPieces& figure : figures)
      row.insert(row.end(), {unless_nan(figure.mean), unless_nan(figure.interval)});
    table.add_row(row);
  };
  for (const PrecisionTwin& twin : scan.twins) {
    const bool all = twin.scope == Scope::all_operands;
    const std::string layer = twin.layer < 0 ? "" : std::to_string(twin.layer);
    add(recipe_info(scan.recipe).name,
        {twin.scope == Scope::one_layer ? layer : "all", all ? "all" : gemm_class_name(twin.gemm_class),
         all ? "all" : operand_name(twin.operand)},
        {twin.divergence, twin.behind, twin.loss_change, twin.flips});
  }
  constexpr FigureOfPieces kUnknown{NAN, NAN};
  for (const PublishedFit& fit : scan.published)
    add(fit.name, {}, {fit.divergence, kUnknown, fit.loss_change, kUnknown});
  return table;
}

namespace {

QString effectName(const OperandEffect& effect) {
  const QString layer = effect.layer < 0 ? QString() : layerName(effect.layer) + QStringLiteral(", ");
  return layer + QString("%1, %2 of %3")
                     .arg(gemmClassLabel(effect.gemm_class), QLatin1String(operand_name(effect.operand)),
                          QLatin1String(direction_name(effect.gemm)));
}

// "3 routed dY wgrad".
QString briefName(const OperandEffect& effect) {
  return (effect.layer < 0 ? QString() : QString::number(effect.layer) + QLatin1Char(' ')) +
         gemmClassBrief(effect.gemm_class) + QLatin1Char(' ') + QLatin1String(operand_name(effect.operand)) +
         QLatin1Char(' ') + QLatin1String(direction_name(effect.gemm));
}

void fillEffects(QStandardItemModel& model, const OperandScan& scan) {
  beginTable(model,
             {{"Layer, operand", "Layer, class, operand and GEMM; only this operand was rounded"},
              {"Share of error", "Share of the sum of all squared gradient errors, measured"},
              {"Gradient error", "|g - g0| / |g0| over all weights, g0: gradient with everything in FP32; measured"},
              {"Loss, nats",
               "Change of this batch's cross-entropy in nats/token, measured; only the forward pass can change it"},
              {"Recipe", {}}});
  for (const OperandEffect& effect : scan.effects) {
    const bool forward = effect.gemm == Direction::forward;
    const double largest_share = scan.effects.front().share;  // the effects are sorted, the costliest first
    appendOperand(
        model,
        {textItem(briefName(effect), effectName(effect)), figureItem(formatPercent(effect.share), effect.share),
         figureItem(formatPercent(effect.gradient_error), effect.gradient_error),
         figureItem(forward ? signedText(effect.loss_change) : QString(), effect.loss_change),
         textItem(QString::fromStdString(effect.recipe))},
        largest_share > 0 ? effect.share / largest_share : 0);
  }
}

}  // namespace

OperandCostsPanel::OperandCostsPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Operand costs", Provenance::measured_here, parent) {
  effects_ = new QStandardItemModel(this);
  twins_table_ = new QStandardItemModel(this);
  recipe_ = makeChoice({}, "Number format", "Format to which one operand at a time is rounded; all else stays in FP32");
  for (const Recipe recipe : forwardRecipes()) {
    recipe_->addItem(QLatin1String(recipe_info(recipe).name), static_cast<int>(recipe));
    recipe_->setItemData(recipe_->count() - 1, QLatin1String(recipe_info(recipe).description), Qt::ToolTipRole);
  }
  recipe_->setCurrentIndex(recipe_->findData(static_cast<int>(Recipe::mxfp4)));
  connect(recipe_, &QComboBox::currentIndexChanged, this, &OperandCostsPanel::fill);
  addControl(recipe_);
  view_ = new QTableView(this);
  view_->setModel(effects_);
  view_->setSortingEnabled(true);
  view_->sortByColumn(kBarColumn, Qt::DescendingOrder);
  makePlain(view_, "Operands by quantization error");
  view_->horizontalHeader()->setDefaultAlignment(Qt::AlignLeft | Qt::AlignVCenter);
  view_->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
  view_->setHorizontalScrollMode(QAbstractItemView::ScrollPerPixel);  // scrolls, so that names of formats are not cut
  followFont(view_, [this] {
    view_->verticalHeader()->setDefaultSectionSize(view_->fontMetrics().height() + 4);
    view_->horizontalHeader()->setMinimumSectionSize(view_->fontMetrics().averageCharWidth() * 7);
  });
  connect(selection_, &Selection::changed, this, &OperandCostsPanel::fill);
  measure_ = new QPushButton(this);
  measure_->hide();
  connect(measure_, &QPushButton::clicked, this, &OperandCostsPanel::measureOrCancel);
  showAnswers();
  addBody(new WholeRows(view_));
  addBody(measure_, 0);
  keepState("recipe", recipe_);
}

std::shared_ptr<const TelemetryFrame> OperandCostsPanel::frameOf(int run) const {
  return run < 0 ? nullptr : selection_->histories()[run]->quant_frame_at(selection_->step());
}

int OperandCostsPanel::shownRun() const {
  if (!selection_->history()) return -1;
  const bool b_instead = selection_->run() == 0 && selection_->histories().size() > 1 && !frameOf(0) && frameOf(1);
  return b_instead ? 1 : selection_->run();
}

void OperandCostsPanel::showEvent(QShowEvent* event) {
  Panel::showEvent(event);
  fill();
}

bool OperandCostsPanel::showsCheckpoint() const {
  const int run = shownRun();
  return run >= 0 && run_origin(selection_->histories()[run]->info()) == RunOrigin::checkpoint;
}

void OperandCostsPanel::showTable() {
  const bool twins = showsCheckpoint();
  if (std::exchange(shows_twins_, twins) == twins) return;
  recipe_->setVisible(twins);
  QAbstractItemDelegate* before = view_->itemDelegateForColumn(kBarColumn);
  view_->setItemDelegateForColumn(kBarColumn, nullptr);  // else Qt would call the deleted delegate
  delete before;
  view_->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
  view_->setModel(twins ? twins_table_ : effects_);
  const QString longest = twins ? QString(kLongestDivergence) : QStringLiteral("0.0000 %");
  view_->setItemDelegateForColumn(kBarColumn, new ShareDelegate(longest, view_));
  stretchBars();
  view_->sortByColumn(kBarColumn, Qt::DescendingOrder);
}

void OperandCostsPanel::measureOrCancel() {
  if (!progress_.isEmpty()) return emit measurementCancelled();
  showState({}, {});
  if (showsCheckpoint())
    emit twinsRequested(shownRun(), recipe());
  else if (const auto frame = frameOf(shownRun()))
    emit measurementRequested(shownRun(), frame->step);
}

void OperandCostsPanel::showState(const QString& progress, const QString& refused) {
  progress_ = progress;
  refused_ = refused;
  fill();
}

void OperandCostsPanel::showMeasured(std::shared_ptr<const MeasuredOperands> measured) {
  measured_ = std::move(measured);
  fillEffects(*effects_, measured_ ? measured_->scan : OperandScan{});
  effects_->sort(kBarColumn, Qt::DescendingOrder);
  stretchBars();
  showState({}, {});
}

void OperandCostsPanel::showTwins(std::shared_ptr<const MeasuredTwins> twins) {
  twins_ = std::move(twins);
  fillTwins(*twins_table_, twins_ ? twins_->scan : PrecisionScan{});
  if (twins_)
    if (const int place = recipe_->findData(static_cast<int>(twins_->scan.recipe)); place >= 0)
      recipe_->setCurrentIndex(place);
  twins_table_->sort(kBarColumn, Qt::DescendingOrder);
  stretchBars();
  showState({}, {});
}

// The bars fill the room that other columns leave; new columns are as wide as their contents.
void OperandCostsPanel::stretchBars() {
  QHeaderView* header = view_->horizontalHeader();
  if (kBarColumn < header->count()) header->setSectionResizeMode(kBarColumn, QHeaderView::Stretch);
}

Panel::Answer OperandCostsPanel::answer() const {
  if (!selection_->history()) return {{}, {noDataYetNotice(*selection_)}};
  if (!progress_.isEmpty()) return {{}, {progress_}};
  if (!refused_.isEmpty()) return {{}, {refused_}, true};
  return showsCheckpoint() ? sayTwins() : sayMeasured();
}

Panel::Answer OperandCostsPanel::sayTwins() const {
  if (!twins_) return {{}, {"Not measured yet"}};
  return {QString("Which operand is most sensitive to %1?").arg(QLatin1String(recipe_info(twins_->scan.recipe).name)),
          twinsAnswers(twins_->scan)};
}

Panel::Answer OperandCostsPanel::sayMeasured() const {
  if (!frameOf(shownRun()) && !measured_)
    return {{}, {QString("Nothing is quantized in %1").arg(runLabel(*selection_, shownRun()))}};
  if (!measured_ || measured_->scan.effects.empty())
    return {
        {},
        {QString("Not measured yet: a copy of %1 trains again up to the shown step, then computes a gradient for each "
                 "operand")
             .arg(runLetter(*selection_, shownRun())),
         "Not measured yet"}};
  const OperandScan& scan = measured_->scan;
  const OperandEffect& worst = scan.effects.front();
  const QString costliest =
      QString("%1 changes the gradient most: by %2").arg(effectName(worst), formatPercent(worst.gradient_error));
  return {{},
          {QString("%1, all %2 together by %3; loss %4 nats/token")
               .arg(costliest)
               .arg(scan.effects.size())
               .arg(formatPercent(scan.all_gradient_error), signedText(scan.all_loss_change)),
           costliest, QString("%1 changes the gradient most").arg(briefName(worst))}};
}

// Shows the button for a measurement of the shown step, or of the chosen recipe, unless it has been measured.
void OperandCostsPanel::showButton() {
  if (showsCheckpoint()) {
    const bool other = !twins_ || twins_->scan.recipe != recipe() || runLabel(*selection_, shownRun()) != twins_->run;
    measure_->setVisible(!progress_.isEmpty() || other);
    return measure_->setText(!progress_.isEmpty() ? QString("Cancel")
                                                  : QString("Measure %1").arg(recipe_->currentText()));
  }
  const auto frame = frameOf(shownRun());
  const bool other =
      !measured_ || !frame || frame->step != measured_->step || runLabel(*selection_, shownRun()) != measured_->run;
  measure_->setVisible(!progress_.isEmpty() || (frame && other));
  if (!progress_.isEmpty()) return measure_->setText("Cancel");
  if (frame)
    measure_->setText(
        QString("Measure %1 at step %2").arg(runLabel(*selection_, shownRun()), formatCount(frame->step)));
}

void OperandCostsPanel::fill() {
  if (!isVisible()) return;
  update();  // repaints the header as well
  for (QWidget* part : findChildren<QWidget*>(Qt::FindDirectChildrenOnly)) part->update();
  showTable();
  showButton();
}

std::optional<Provenance> OperandCostsPanel::kind() const {
  const bool is_measured = showsCheckpoint() ? twins_ != nullptr : measured_ != nullptr;
  return is_measured ? std::optional(Provenance::measured_here) : std::nullopt;
}

QString OperandCostsPanel::status() const {
  if (!kind()) return {};
  if (!showsCheckpoint()) return QString("step %1, %2").arg(measured_->step).arg(measured_->run);
  return QString("%1, %2, %3")
      .arg(QLatin1String(recipe_info(twins_->scan.recipe).name), countedText(twins_->scan.pieces, "piece of text"),
           twins_->run);
}

ValueTable OperandCostsPanel::tableOfEffects() const {
  ValueTable table({"step", "layer", "class", "operand", "GEMM", "recipe", "gradient error [share]",
                    "share of the squared error [share]", "loss change [nats/token]"});
  for (const OperandEffect& effect : measured_ ? measured_->scan.effects : std::vector<OperandEffect>{})
    table.add(measured_->step, effect.layer < 0 ? TableValue() : table_value(effect.layer),
              std::string(gemm_class_name(effect.gemm_class)), std::string(operand_name(effect.operand)),
              std::string(direction_name(effect.gemm)), effect.recipe, effect.gradient_error, effect.share,
              effect.loss_change);
  return table;
}

ValueTable OperandCostsPanel::table() const {
  if (!showsCheckpoint()) return tableOfEffects();
  return twinsTable(twins_ ? twins_->scan : PrecisionScan{});
}

}  // namespace moescope
