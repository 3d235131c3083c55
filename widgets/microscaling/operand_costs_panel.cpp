#include "widgets/microscaling/operand_costs_panel.h"

#include <QHeaderView>
#include <utility>

#include "widgets/look/counted_text.h"
#include "widgets/look/style.h"
#include "widgets/look/type_scale.h"
#include "widgets/microscaling/tables.h"
#include "widgets/panel/tensor_text.h"
#include "widgets/panel/whole_rows.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {

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
  model.clear();
  model.setSortRole(Qt::UserRole);
  model.setHorizontalHeaderLabels({"Layer, operand", "Share of error", "Gradient error", "Loss, nats", "Recipe"});
  model.horizontalHeaderItem(0)->setToolTip("Layer, class, operand and GEMM; only this operand was rounded");
  model.horizontalHeaderItem(1)->setToolTip("Share of the sum of all squared gradient errors, measured");
  model.horizontalHeaderItem(2)->setToolTip(
      "|g - g0| / |g0| over all weights, g0: gradient with everything in FP32; measured");
  model.horizontalHeaderItem(3)->setToolTip(
      "Change of this batch's cross-entropy in nats/token, measured; only the forward pass can change it");
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
  for (auto signal : {&Selection::dataChanged, &Selection::timeChanged, &Selection::focusChanged})
    connect(selection_, signal, this, &OperandCostsPanel::fill);
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

bool OperandCostsPanel::ofCheckpoint() const {
  const int run = shownRun();
  return run >= 0 && run_origin(selection_->histories()[run]->info()) == RunOrigin::checkpoint;
}

void OperandCostsPanel::showTable() {
  const bool twins = ofCheckpoint();
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
  refused_.clear();
  if (ofCheckpoint())
    emit twinsRequested(shownRun(), recipe());
  else if (const auto frame = frameOf(shownRun()))
    emit measurementRequested(shownRun(), frame->step);
  fill();
}

void OperandCostsPanel::showMeasuring(const QString& progress) {
  progress_ = progress;
  refused_.clear();
  fill();
}

void OperandCostsPanel::showMeasured(std::shared_ptr<const MeasuredOperands> measured) {
  progress_.clear();
  refused_.clear();
  measured_ = std::move(measured);
  fillEffects(*effects_, measured_ ? measured_->scan : OperandScan{});
  effects_->sort(kBarColumn, Qt::DescendingOrder);
  stretchBars();
  fill();
}

void OperandCostsPanel::showTwins(std::shared_ptr<const MeasuredTwins> twins) {
  progress_.clear();
  refused_.clear();
  twins_ = std::move(twins);
  fillTwins(*twins_table_, twins_ ? twins_->scan : PrecisionScan{});
  if (twins_)
    if (const int place = recipe_->findData(static_cast<int>(twins_->scan.recipe)); place >= 0)
      recipe_->setCurrentIndex(place);
  twins_table_->sort(kBarColumn, Qt::DescendingOrder);
  stretchBars();
  fill();
}

// The bars fill the room that other columns leave; new columns are as wide as their contents.
void OperandCostsPanel::stretchBars() {
  QHeaderView* header = view_->horizontalHeader();
  if (kBarColumn < header->count()) header->setSectionResizeMode(kBarColumn, QHeaderView::Stretch);
}

void OperandCostsPanel::showRefused(const QString& reason) {
  progress_.clear();
  refused_ = reason;
  fill();
}

Panel::Answer OperandCostsPanel::answer() const {
  if (!selection_->history()) return {{}, {noDataYetNotice(*selection_)}};
  if (!progress_.isEmpty()) return {{}, {progress_}};
  if (!refused_.isEmpty()) return {{}, {refused_}, true};
  return ofCheckpoint() ? sayTwins() : sayMeasured();
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
  if (ofCheckpoint()) {
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
  const bool is_measured = ofCheckpoint() ? twins_ != nullptr : measured_ != nullptr;
  return is_measured ? std::optional(Provenance::measured_here) : std::nullopt;
}

QString OperandCostsPanel::status() const {
  if (!kind()) return {};
  if (!ofCheckpoint()) return QString("step %1, %2").arg(measured_->step).arg(measured_->run);
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
  if (!ofCheckpoint()) return tableOfEffects();
  return twinsTable(twins_ ? twins_->scan : PrecisionScan{});
}

}  // namespace moescope
