#include "widgets/microscaling/operand_costs_panel.h"

#include <QHeaderView>
#include <algorithm>
#include <cmath>
#include <utility>

#include "widgets/look/counted_text.h"
#include "widgets/look/layouts.h"
#include "widgets/look/style.h"
#include "widgets/look/type_scale.h"
#include "widgets/microscaling/tables.h"
#include "widgets/panel/format_text.h"
#include "widgets/panel/tensor_text.h"
#include "widgets/panel/whole_rows.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {

namespace {

// "3 routed w1 dY wgrad".
QString briefName(const OperandPlace& place) {
  const QString layer = place.layer < 0 ? QString() : QString::number(place.layer) + QLatin1Char(' ');
  return layer + gemmClassBrief(place.gemm_class()) + QLatin1Char(' ') + tensorName(place);
}

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

constexpr int kPlaceRole = Qt::UserRole + 2;  // index of the operand of a modelled row
constexpr float kStandsOut = 3;               // times the mean share of an operand
enum CostColumn { kSqnrColumn = kBarColumn + 1, kFlushedColumn, kClippedColumn, kFormatColumn };

// A missing figure is sorted below all others.
QStandardItem* costItem(const QString& text, float figure) {
  return figureItem(text, is_missing(figure) ? -1 : figure);
}

void fillCosts(QStandardItemModel& model, const std::vector<OperandCost>& costs) {
  model.setRowCount(0);
  model.setSortRole(Qt::UserRole);
  model.setHorizontalHeaderLabels(
      {"Layer, operand", "Share of error", "SQNR, dB", "Flushed to zero", "Clipped", "Format"});
  const char* const tips[] = {"Layer, class, weight and operand of the GEMM",
                              ("Share of all operands' rounding error, modelled: squares of their relative errors are "
                               "added as if independent, with equal weight for all GEMMs"),
                              "Signal-to-quantization-noise ratio, measured",
                              "Share of non-zero values that became zero, measured",
                              "Share of values beyond the format's maximum, measured",
                              "Element format and how its scale is chosen"};
  for (int column = 0; column < model.columnCount(); ++column)
    model.horizontalHeaderItem(column)->setToolTip(tips[column]);
  // The longest bar is emphasised only if it stands out. The costs are sorted, the largest first.
  const float longest = costs.empty() ? 0 : std::max(costs.front().share, kStandsOut / costs.size());
  for (const OperandCost& cost : costs) {
    const QuantFrame& quant = *cost.operand;
    const QString sqnr = std::isinf(quant.sqnr_db) ? QString("exact") : formatValue(quant.sqnr_db, 3);
    appendOperand(model,
                  {textItem(briefName(quant), placeName(quant)), costItem(formatPercent(cost.share), cost.share),
                   costItem(sqnr, quant.sqnr_db), costItem(formatPercent(quant.underflow), quant.underflow),
                   costItem(formatPercent(quant.clipped), quant.clipped), textItem(formatLabel(quant.format))},
                  cost.share > 0 ? cost.share / longest : 0);
    model.item(model.rowCount() - 1)->setData(model.rowCount() - 1, kPlaceRole);
  }
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
  costs_table_ = new QStandardItemModel(this);
  effects_ = new QStandardItemModel(this);
  twins_table_ = new QStandardItemModel(this);
  basis_row_ = new QWidget(this);
  auto* row = plainRow(basis_row_, 0);
  const QString names[] = {"Modelled", "Measured"};
  const QString tips[] = {"By the rounding errors of each weight's operands, which are treated as independent",
                          "By the change of the gradient when one operand is rounded: a copy of the run does a forward "
                          "and a backward pass for each operand"};
  for (const Basis basis : {kModelled, kMeasured}) {
    QToolButton*& button = bases_[basis];
    button = new QToolButton(basis_row_);
    button->setText(names[basis]);
    button->setToolTip(tips[basis]);
    button->setCheckable(true);
    button->setAutoExclusive(true);
    button->setProperty(kSwitchProperty, true);
    connect(button, &QToolButton::toggled, this, [this, basis](bool checked) {
      if (!checked) return;
      fill();
      if (basis == kMeasured && !measured_ && progress_.isEmpty() && isVisible() && !ofCheckpoint()) measureOrCancel();
    });
    row->addWidget(button);
  }
  addControl(basis_row_);
  recipe_ = makeChoice({}, "Number format", "Format to which one operand at a time is rounded; all else stays in FP32");
  for (const Recipe recipe : forwardRecipes()) {
    recipe_->addItem(QLatin1String(recipe_info(recipe).name), static_cast<int>(recipe));
    recipe_->setItemData(recipe_->count() - 1, QLatin1String(recipe_info(recipe).description), Qt::ToolTipRole);
  }
  recipe_->setCurrentIndex(recipe_->findData(static_cast<int>(Recipe::mxfp4)));
  connect(recipe_, &QComboBox::currentIndexChanged, this, &OperandCostsPanel::fill);
  addControl(recipe_);
  view_ = new QTableView(this);
  view_->setModel(costs_table_);
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
  connect(view_, &QTableView::clicked, this, &OperandCostsPanel::choose);
  connect(view_, &QTableView::activated, this, &OperandCostsPanel::open);
  for (auto signal : {&Selection::dataChanged, &Selection::timeChanged, &Selection::focusChanged})
    connect(selection_, signal, this, &OperandCostsPanel::fill);
  measure_ = new QPushButton(this);
  measure_->hide();
  connect(measure_, &QPushButton::clicked, this, &OperandCostsPanel::measureOrCancel);
  showAnswers();
  addBody(new WholeRows(view_));
  addBody(measure_, 0);
  bases_[kModelled]->setChecked(true);
  keepState("recipe", recipe_);
  keepState(
      "measured", [this] { return basis() == kMeasured; },
      [this](const QVariant& state) { setBasis(state.toBool() ? kMeasured : kModelled); });
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

OperandCostsPanel::Contents OperandCostsPanel::contents() const {
  if (ofCheckpoint()) return Contents::twins;
  return basis() == kMeasured ? Contents::effects : Contents::modelled;
}

void OperandCostsPanel::showTable() {
  const Contents contents = this->contents();
  if (std::exchange(shown_contents_, contents) == contents) return;
  basis_row_->setVisible(contents != Contents::twins);
  recipe_->setVisible(contents == Contents::twins);
  QAbstractItemDelegate* before = view_->itemDelegateForColumn(kBarColumn);
  view_->setItemDelegateForColumn(kBarColumn, nullptr);  // else Qt would call the deleted delegate
  delete before;
  view_->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
  QAbstractItemModel* const models[] = {costs_table_, effects_, twins_table_};
  view_->setModel(models[static_cast<int>(contents)]);
  const QString longest = contents == Contents::twins ? QString(kLongestDivergence) : QStringLiteral("0.0000 %");
  view_->setItemDelegateForColumn(kBarColumn, new ShareDelegate(longest, view_));
  for (const int column : {kClippedColumn, kFormatColumn}) view_->setColumnHidden(column, false);
  stretchBars();
  view_->sortByColumn(kBarColumn, Qt::DescendingOrder);
  frame_.reset();
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
  if (contents() == Contents::modelled) return costliest();
  if (!progress_.isEmpty()) return {{}, {progress_}};
  if (!refused_.isEmpty()) return {{}, {refused_}, true};
  return contents() == Contents::twins ? sayTwins() : sayMeasured();
}

Panel::Answer OperandCostsPanel::sayTwins() const {
  if (!twins_) return {{}, {"Not measured yet"}};
  return {QString("Which operand is most sensitive to %1?").arg(QLatin1String(recipe_info(twins_->scan.recipe).name)),
          twinsAnswers(twins_->scan)};
}

Panel::Answer OperandCostsPanel::sayMeasured() const {
  if (!frameOf(shownRun()) && !measured_)
    return {{}, {QString("Nothing is quantized in %1").arg(runLabel(*selection_, shownRun()))}};
  if (!measured_ || measured_->scan.effects.empty()) return {{}, {"Not measured yet"}};
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
  if (contents() == Contents::twins) {
    const bool other = !twins_ || twins_->scan.recipe != recipe() || runLabel(*selection_, shownRun()) != twins_->run;
    measure_->setVisible(!progress_.isEmpty() || other);
    return measure_->setText(!progress_.isEmpty() ? QString("Cancel")
                                                  : QString("Measure %1").arg(recipe_->currentText()));
  }
  const auto frame = frameOf(shownRun());
  const bool other =
      !measured_ || !frame || frame->step != measured_->step || runLabel(*selection_, shownRun()) != measured_->run;
  measure_->setVisible(basis() == kMeasured && (!progress_.isEmpty() || (frame && other)));
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
  if (contents() != Contents::modelled) return;
  const auto frame = frameOf(shownRun());
  if (frame != frame_) {
    frame_ = frame;
    costs_ = frame_ ? operand_costs(*frame_) : std::vector<OperandCost>();
    fillCosts(*costs_table_, costs_);
    stretchBars();
    costs_table_->sort(view_->horizontalHeader()->sortIndicatorSection(),
                       view_->horizontalHeader()->sortIndicatorOrder());
    // Hides the column if all formats are equal, because the header then names the format.
    view_->setColumnHidden(kFormatColumn, !onlyFormat().isEmpty());
    view_->setColumnHidden(kClippedColumn, std::ranges::none_of(costs_, [](const OperandCost& cost) {
                             return cost.operand->clipped > 0;
                           }));
  }
  view_->setAutoScroll(false);  // the costliest operands stay in view, whatever another panel chooses
  for (int row = 0; row < costs_table_->rowCount(); ++row)
    if (placeAt(row) == selection_->tensor()) view_->selectRow(row);
  view_->setAutoScroll(true);
}

OperandPlace OperandCostsPanel::placeAt(int row) const {
  return *costs_[costs_table_->item(row)->data(kPlaceRole).toInt()].operand;
}

// Returns the format, if all operands have the same one; else an empty text.
QString OperandCostsPanel::onlyFormat() const {
  const bool one = !costs_.empty() && std::ranges::all_of(costs_, [this](const OperandCost& cost) {
    return cost.operand->format.name == costs_[0].operand->format.name;
  });
  return one ? formatLabel(costs_[0].operand->format) : QString();
}

Panel::Answer OperandCostsPanel::costliest() const {
  if (costs_.empty()) return {{}, {QString("Nothing is quantized in %1").arg(runLabel(*selection_, shownRun()))}};
  const OperandCost& worst = costs_.front();
  if (std::isnan(worst.share)) return {{}, {"The relative errors of the operands are not in this log"}};
  if (!(worst.share > 0)) return {{}, {"No operand has a rounding error"}};
  const QString letter = runLetter(*selection_, shownRun());
  QString operand = QString("%1 has the largest rounding error in %2").arg(placeName(*worst.operand), letter);
  if (worst.share * costs_.size() < kStandsOut) operand.prepend("No operand stands out: ");
  const QString share = formatPercent(worst.share);
  return {{},
          {QString("%1: %2 of the error of all %3 operands, SQNR %4 dB")
               .arg(operand, share)
               .arg(costs_.size())
               .arg(formatValue(worst.operand->sqnr_db, 3)),
           QString("%1: %2 of the error").arg(operand, share), operand}};
}

void OperandCostsPanel::choose(const QModelIndex& index) {
  if (contents() != Contents::modelled) return;  // a measured row is about a class of operands, not one tensor
  selection_->setTensor(placeAt(index.row()));
}

// Makes the shown run active, since tensors are captured from the active run.
void OperandCostsPanel::open(const QModelIndex& index) {
  if (contents() != Contents::modelled) return;
  const OperandPlace place = placeAt(index.row());
  const std::int64_t step = frame_->step;
  selection_->setRun(shownRun());
  selection_->setTensor(place);
  emit operandOpened(place, step);
}

std::optional<Provenance> OperandCostsPanel::kind() const {
  if (contents() == Contents::twins) return twins_ ? std::optional(Provenance::measured_here) : std::nullopt;
  if (basis() == kMeasured) return measured_ ? std::optional(Provenance::measured_here) : std::nullopt;
  return frame_ ? Panel::kind() : std::nullopt;
}

QString OperandCostsPanel::status() const {
  if (contents() == Contents::twins)
    return twins_ ? QString("%1, %2, %3")
                        .arg(QLatin1String(recipe_info(twins_->scan.recipe).name),
                             countedText(twins_->scan.pieces, "piece of text"), twins_->run)
                  : QString();
  if (basis() == kMeasured)
    return measured_ ? QString("step %1, %2").arg(measured_->step).arg(measured_->run) : QString();
  if (!frame_) return {};
  // Begins with "modelled", so that a narrow panel shows it as well.
  QStringList parts{"modelled", runLabel(*selection_, shownRun()), timeStatus(frame_->step, true)};
  if (const QString format = onlyFormat(); !format.isEmpty()) parts << QString("all in %1").arg(format);
  return parts.join(QStringLiteral(", "));
}

ValueTable OperandCostsPanel::tableOfEffects() const {
  ValueTable table({{"step"},
                    {"layer"},
                    {"class"},
                    {"operand"},
                    {"GEMM"},
                    {"recipe"},
                    {"gradient error", "share"},
                    {"share of the squared error", "share"},
                    {"loss change", "nats/token"}});
  for (const OperandEffect& effect : measured_ ? measured_->scan.effects : std::vector<OperandEffect>{})
    table.add(measured_->step, effect.layer < 0 ? TableValue() : table_value(effect.layer),
              std::string(gemm_class_name(effect.gemm_class)), std::string(operand_name(effect.operand)),
              std::string(direction_name(effect.gemm)), effect.recipe, effect.gradient_error, effect.share,
              effect.loss_change);
  return table;
}

ValueTable OperandCostsPanel::table() const {
  if (contents() == Contents::twins) return twinsTable(twins_ ? twins_->scan : PrecisionScan{});
  if (contents() == Contents::effects) return tableOfEffects();
  ValueTable table({{"step"},
                    {"layer"},
                    {"class"},
                    {"weight"},
                    {"operand"},
                    {"direction"},
                    {"format"},
                    {"SQNR", "dB"},
                    {"underflow", "share"},
                    {"clipped", "share"},
                    {"share of the rounding error, modelled", "share"}});
  const auto frame = frameOf(shownRun());
  if (!frame) return table;
  for (const OperandCost& cost : operand_costs(*frame)) {
    const QuantFrame& quant = *cost.operand;
    table.add(frame->step, quant.layer, std::string(gemm_class_name(quant.gemm_class())),
              std::string(gemm_name(quant.gemm)), std::string(operand_name(quant.operand)),
              std::string(direction_name(quant.direction)), quant.format.name, quant.sqnr_db,
              unless_nan(quant.underflow), unless_nan(quant.clipped), unless_nan(cost.share));
  }
  return table;
}

}  // namespace moescope
