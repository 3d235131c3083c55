#include "widgets/microscaling/block_microscope_panel.h"

#include <QApplication>
#include <QEvent>
#include <QHeaderView>
#include <QPushButton>
#include <QResizeEvent>
#include <QSplitter>
#include <QUndoCommand>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "widgets/look/layouts.h"
#include "widgets/look/row_delegate.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/microscaling/block/block_bars.h"
#include "widgets/microscaling/block/block_cards.h"
#include "widgets/microscaling/block/block_table.h"
#include "widgets/microscaling/capture_bar.h"
#include "widgets/microscaling/tables.h"
#include "widgets/panel/controls.h"
#include "widgets/panel/format_text.h"
#include "widgets/plots/axis.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

constexpr int kBlock = 32;

// Returns equal values on all platforms: std::mt19937 does so, and the sum of twelve uniform numbers replaces
// std::normal_distribution, which does not.
std::vector<float> gaussian(unsigned seed, double mean, double sigma) {
  std::mt19937 generator(seed);
  std::vector<float> values(kBlock);
  for (float& v : values) {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += generator() * 0x1p-32;
    v = static_cast<float>(mean + sigma * sum);
  }
  return values;
}

std::vector<BlockPreset> makePresets() {
  std::vector<BlockPreset> presets;
  presets.push_back({"Gaussian",
                     "Standard normal values: on average 31.5 dB in MXFP8 E4M3, 18.8 in MXFP4, 20.4 in NVFP4",
                     gaussian(1, 0, 1)});
  std::vector<float> outlier = gaussian(1, 0, 1);
  outlier[5] *= 300;
  presets.push_back({"Outlier × 300",
                     "E4M3 spans 17.8 powers of two and keeps the neighbours. In E2M1 (MXFP4, NVFP4) they become 0",
                     outlier});
  presets.push_back({"Gains near 0.93", "With E4M3 and FLOOR every value lies above 448 × scale and clips to 0.875",
                     gaussian(2, 0.93, 0.01)});
  std::vector<float> wide = gaussian(3, 0, 1);
  for (int i = 0; i < kBlock; ++i) wide[i] *= static_cast<float>(std::exp2(-i));
  presets.push_back({"Wide range", "Gradients over 32 binades: SQNR is high although the small values become 0", wide});
  presets.push_back(
      {"Subnormal floats", "Below 2⁻¹²⁶ the smallest scale of MX, 2⁻¹²⁷, is used", gaussian(4, 0, 1e-40)});
  presets.push_back({"All zero", "The largest value is 0: in MX byte 0 and codes 0", std::vector<float>(kBlock, 0.0f)});
  std::vector<float> nan = gaussian(5, 0, 1);
  nan[7] = std::numeric_limits<float>::quiet_NaN();
  presets.push_back({"One NaN", "One NaN or infinity makes all values that share its scale NaN", nan});
  return presets;
}

}  // namespace

const std::vector<BlockPreset>& blockPresets() {
  static const std::vector<BlockPreset> kPresets = makePresets();
  return kPresets;
}

namespace {

constexpr int kMaxSpread = 96;   // pixels by which a wide table widens each of its columns
constexpr int kHighPanel = 320;  // height from which the cards have notes

}  // namespace

bool BlockMicroscopePanel::State::operator==(const State& other) const {
  // Compares bits, so that NaN equals itself and -0 differs from 0.
  return values.size() == other.values.size() &&
         std::memcmp(values.data(), other.values.data(), values.size() * sizeof(float)) == 0 &&
         format == other.format && rounding == other.rounding && draw == other.draw;
}

class BlockMicroscopePanel::Change : public QUndoCommand {
 public:
  Change(BlockMicroscopePanel* microscope, State before, State after, const QString& what)
      : QUndoCommand(what), microscope_(microscope), before_(std::move(before)), after_(std::move(after)) {}
  void undo() override { microscope_->apply(before_); }
  void redo() override { microscope_->apply(after_); }

 private:
  BlockMicroscopePanel* microscope_;
  State before_, after_;
};

BlockMicroscopePanel::BlockMicroscopePanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Block microscope", Provenance::measured_here, parent) {
  makeControls();
  makeBody();
  makeActions();
  state_.format = mx_format(ElementFormat::e4m3);
  showExample();
  keepState(
      "rounding", [this] { return rounding_->currentIndex(); },
      [this](const QVariant& state) { setRounding(static_cast<Rounding>(std::clamp(state.toInt(), 0, 1))); });
}

void BlockMicroscopePanel::makeControls() {
  presets_ = new FlatCombo(this);
  presets_->setAccessibleName("Example block");
  presets_->setPlaceholderText("Examples");
  presets_->setToolTip("Example blocks");
  for (const BlockPreset& preset : blockPresets()) {
    presets_->addItem(preset.name);
    presets_->setItemData(presets_->count() - 1, preset.lesson, Qt::ToolTipRole);
  }
  connect(presets_, &QComboBox::activated, this, &BlockMicroscopePanel::loadPreset);
  format_ = new FlatCombo(this);
  fillBlockFormats(format_);
  rule_ = new FlatCombo(this);
  fillScaleRules(rule_);
  const auto choose = [this] { requestFormat(formatAt(format_->currentIndex())); };
  connect(format_, &QComboBox::activated, this, choose);
  connect(rule_, &QComboBox::activated, this, choose);
  rounding_ = makeChoice(
      {"nearest even", "stochastic"}, "Rounding",
      "Rounding. Stochastic: rounds up with the probability that preserves the mean, except for values that clip");
  connect(rounding_, &QComboBox::activated, this, [this](int i) { setRounding(static_cast<Rounding>(i)); });
  makeOptions();
  auto* reset_button = new QPushButton("Reset", this);
  followFont(reset_button, [reset_button] {
    reset_button->setFixedWidth(reset_button->fontMetrics().horizontalAdvance(reset_button->text()) + kSpace24);
  });
  reset_button->setToolTip("Restores the block as it was opened");
  connect(reset_button, &QPushButton::clicked, this, [this] { change(original_, "reset"); });
  steps_ = makeSteps("Previous block", "Next block", [this](int direction) { step(direction); });
  steps_->hide();
  addControl(inOneRow({format_, rule_, rounding_}));
  addControl(steps_);
  addControl(reset_button);
  addOption(presets_);
  for (QAction* option : {turn_, draw_}) addOption(option);
}

// Joins combo boxes to one control of the header, so that they move to its menu together.
QWidget* BlockMicroscopePanel::inOneRow(std::initializer_list<QComboBox*> boxes) {
  auto* together = new QWidget(this);
  auto* row = plainRow(together, kSpace4);
  for (QComboBox* box : boxes) {
    box->setProperty(kFlatProperty, true);
    row->addWidget(box);
  }
  return together;
}

void BlockMicroscopePanel::makeOptions() {
  draw_ = new QAction("Draw again", this);
  draw_->setToolTip("Other random numbers for stochastic rounding");
  connect(draw_, &QAction::triggered, this, [this] {
    State next = state_;
    ++next.draw;
    change(std::move(next), "draw");
  });
  turn_ = new QAction("Block along the other axis", this);
  turn_->setToolTip("The block through the same element along the other axis");
  turn_->setShortcut(Qt::Key_X);
  connect(turn_, &QAction::triggered, this,
          [this] { emit axisChosen(axis_ == BlockAxis::row ? BlockAxis::column : BlockAxis::row); });
  addAction(turn_);
}

void BlockMicroscopePanel::makeBody() {
  showAnswers([this] { return bitsLegend(); });
  bar_ = new CaptureBar(this);
  bar_->shows_example = [this] { return isExample(); };
  connect(selection_, &Selection::timeChanged, this, [this] { update(); });
  bar_->hide();
  bars_ = new BlockBars(this);
  cards_ = new BlockCards(this);
  model_ = new BlockModel(this);
  table_ = new QTableView(this);
  table_->setModel(model_);
  table_->setItemDelegate(new RowDelegate(table_));
  table_->setItemDelegateForColumn(BlockModel::kBits, new BitsDelegate(table_));
  makePlain(table_, "Elements of the block");
  followFont(table_, [this] {
    table_->verticalHeader()->setDefaultSectionSize(table_->fontMetrics().height() + kSpace4);
    fitColumns();
  });
  table_->viewport()->installEventFilter(this);
  table_->horizontalHeader()->setStretchLastSection(true);
  table_->setEditTriggers(QAbstractItemView::DoubleClicked | QAbstractItemView::EditKeyPressed |
                          QAbstractItemView::AnyKeyPressed);
  connect(model_, &BlockModel::valueEdited, this, &BlockMicroscopePanel::editValue);
  connect(model_, &BlockModel::refused, this, &BlockMicroscopePanel::readoutChanged);
  connect(bars_, &BlockBars::elementChosen, this, &BlockMicroscopePanel::selectElement);
  connect(table_->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
          [this](const QModelIndex& index) { selectElement(index.row()); });

  auto* both = new QSplitter(Qt::Horizontal, this);
  both->setHandleWidth(kSpace16);
  both->addWidget(bars_);
  both->addWidget(new WholeRows(table_));
  both->setSizes({450, 750});
  addBody(bar_, 0);
  addBody(cards_, 0);
  addBody(both);
}

void BlockMicroscopePanel::makeActions() {
  QAction* undo = undo_.createUndoAction(this, "Undo");
  undo->setShortcut(QKeySequence::Undo);
  QAction* redo = undo_.createRedoAction(this, "Redo");
  redo->setShortcuts({QKeySequence(Qt::CTRL | Qt::Key_Y), QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_Z)});
  for (QAction* action : {undo, redo}) {
    action->setShortcutContext(Qt::WidgetWithChildrenShortcut);
    addAction(action);
  }
}

void BlockMicroscopePanel::setBlock(const BlockOrigin& origin, std::vector<float> values, const OperandFormat& format,
                                    BlockAxis axis, float shared_amax, float tensor_amax) {
  shared_amax_ = shared_amax;
  tensor_amax_ = tensor_amax;
  if (origin.tensor != origin_.tensor) emit readoutChanged({});  // it is of an element of the other tensor
  origin_ = origin;
  axis_ = axis;
  original_ = {std::move(values), format, state_.rounding, state_.draw};
  undo_.clear();
  presets_->setCurrentIndex(-1);
  apply(original_);
}

void BlockMicroscopePanel::showExample() {
  setBlock({}, blockPresets().front().values, state_.format, BlockAxis::row);
}

// An example may have several blocks of the format.
std::span<const float> BlockMicroscopePanel::shownValues() const {
  const std::span<const float> all = state_.values;
  return isExample() ? all.subspan(first_, std::min<std::size_t>(block_size(state_.format), all.size() - first_)) : all;
}

// Returns the largest magnitude of the example, which is the tensor of its blocks.
float BlockMicroscopePanel::exampleAmax() const {
  float amax = 0;
  for (const float value : state_.values) amax = std::max(amax, std::abs(value));
  return amax;
}

void BlockMicroscopePanel::step(int direction) {
  if (!isExample()) return emit stepped(direction);
  const int size = to_int(block_size(state_.format)), blocks = exampleBlocks();
  first_ = (to_int(first_) / size + direction + blocks) % blocks * size;
  apply(state_);
}

void BlockMicroscopePanel::setFormat(const OperandFormat& format) {
  State next = state_;
  next.format = format;
  change(std::move(next), "format");
}

OperandFormat BlockMicroscopePanel::formatAt(int index) const {
  OperandFormat format = blockFormatAt(index);
  if (format.scheme != QuantScheme::mx) return format;
  format.rule = static_cast<ScaleRule>(rule_->currentIndex());
  if (state_.format.scheme == QuantScheme::mx) format.block = state_.format.block;
  return format;
}

// For a format with another block size, asks the owner for another block of the tensor.
void BlockMicroscopePanel::requestFormat(const OperandFormat& format) {
  if (block_size(format) != block_size(state_.format) && !isExample()) return emit formatChosen(format);
  setFormat(format);
}

void BlockMicroscopePanel::editValue(int element, float value) {
  State next = state_;
  next.values[first_ + element] = value;
  change(std::move(next), QString("value %1").arg(element));
}

void BlockMicroscopePanel::setRounding(Rounding rounding) {
  State next = state_;
  next.rounding = rounding;
  change(std::move(next), "rounding");
}

void BlockMicroscopePanel::loadPreset(int preset) {
  const auto& [name, lesson, values] = blockPresets()[preset];
  original_ = state_;
  original_.values = values;
  change(original_, name);
  emit readoutChanged(lesson);
}

void BlockMicroscopePanel::change(State next, const QString& what) {
  if (next == state_) return;
  undo_.push(new Change(this, state_, std::move(next), what));
}

void BlockMicroscopePanel::apply(const State& state) {
  const bool other = state.format != state_.format;
  const int row = table_->currentIndex().row();
  const std::size_t chosen = first_ + std::max(0, row);
  state_ = state;
  const std::size_t size = block_size(state_.format);
  first_ = isExample() && chosen < state_.values.size() ? chosen / size * size : 0;
  OperandFormat format = state_.format;
  format.rounding = state_.rounding;
  block_ = block_anatomy(format, shownValues(), state_.draw, isExample() ? exampleAmax() : shared_amax_);
  refresh();
  if (isExample() && row >= 0) selectElement(to_int(chosen - first_));
  emitReadout();
  if (other) emit formatChosen(state_.format);
}

void BlockMicroscopePanel::selectElement(int element) {
  if (element < 0 || element >= to_int(block_.elements.size())) return;
  bars_->setCurrent(element);
  if (table_->currentIndex().row() != element) table_->setCurrentIndex(model_->index(element, BlockModel::kValue));
  emit elementChosen(element);
  emitReadout();
}

// Hides columns for which there is no room, intermediate results first. The others share the room that remains.
void BlockMicroscopePanel::fitColumns() {
  constexpr int kDispensable[] = {BlockModel::kDecoded, BlockModel::kScaled, BlockModel::kError,
                                  BlockModel::kDequantized};
  for (const int column : kDispensable) table_->showColumn(column);
  table_->resizeColumnsToContents();  // leaves hidden columns as they are
  QHeaderView* header = table_->horizontalHeader();
  const QFontMetrics metrics(semibold(table_->font()));
  int note_width = kSpace16;
  for (int row = 0; row < model_->rowCount(); ++row)
    note_width = std::max(
        note_width, kSpace16 + metrics.horizontalAdvance(model_->index(row, BlockModel::kNote).data().toString()));
  const auto spare = [&] {
    return table_->viewport()->width() - note_width - header->length() + header->sectionSize(BlockModel::kNote);
  };
  for (const int column : kDispensable)
    if (spare() < 0) table_->hideColumn(column);
  const int columns = header->count() - header->hiddenSectionCount(), more = std::min(spare() / columns, kMaxSpread);
  for (int column = BlockModel::kValue; column < BlockModel::kNote && more > 0; ++column)
    if (!table_->isColumnHidden(column)) header->resizeSection(column, header->sectionSize(column) + more);
}

bool BlockMicroscopePanel::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::Resize && watched == table_->viewport()) {
    const auto* resize = static_cast<const QResizeEvent*>(event);
    if (resize->size().width() != resize->oldSize().width()) fitColumns();
  }
  return Panel::eventFilter(watched, event);
}

// Emits the readout of the selected element while the user is at the panel.
void BlockMicroscopePanel::emitReadout() {
  const int element = table_->currentIndex().row();
  if (!isVisible() || element < 0 || !(underMouse() || isAncestorOf(QApplication::focusWidget()))) return;
  emit readoutChanged(elementReadout(block_, element).join(QStringLiteral("   ")));
}

LegendScale BlockMicroscopePanel::bitsLegend() const {
  const auto field = [this](BitField which, const QString& name) {
    return LegendScale::Swatch{bitColor(which, isDark(palette())), name};
  };
  LegendScale legend;
  legend.swatches = {field(BitField::sign, "sign bit")};
  if (bitLayout(state_.format.element).exponent) legend.swatches.push_back(field(BitField::exponent, "exponent"));
  legend.swatches.push_back(field(BitField::mantissa, "mantissa"));
  return legend;
}

// A low panel leaves notes out, so that more elements are in sight.
void BlockMicroscopePanel::resizeEvent(QResizeEvent* event) {
  Panel::resizeEvent(event);
  const bool with_notes = height() >= withType(kHighPanel, fontMetrics());
  cards_->setWithNotes(with_notes);
  bar_->setWithNotes(with_notes);
}

void BlockMicroscopePanel::refresh() {
  format_->setCurrentIndex(blockFormatIndex(state_.format));
  rule_->setEnabled(state_.format.scheme == QuantScheme::mx);
  rule_->setCurrentIndex(static_cast<int>(state_.format.rule));
  rounding_->setCurrentIndex(static_cast<int>(state_.rounding));
  draw_->setEnabled(state_.rounding == Rounding::stochastic);
  turn_->setEnabled(!isExample());
  steps_->setVisible(isExample() ? exampleBlocks() > 1 : steppable_);

  cards_->setBlock(block_);
  bars_->setBlock(&block_, isExample() ? kNoiseSeries : runColor(*selection_, selection_->run()));
  model_->setBlock(&block_);
  fitColumns();
  update();
}

// The kind of the block's values, which need not be those of the active run. Examples have none, since their values are
// invented.
std::optional<Provenance> BlockMicroscopePanel::kind() const {
  if (isExample()) return std::nullopt;
  for (const auto& run : selection_->histories())
    if (!origin_.run.isEmpty() && QString::fromStdString(run->info().name) == origin_.run)
      return provenance_in(run->info(), Provenance::measured_here);
  return Provenance::measured_here;
}

QString BlockMicroscopePanel::status() const {
  QStringList parts{isExample() ? QString("example, invented values") : origin_.place};
  if (const QString step = stepText(); !step.isEmpty()) parts.prepend(step);
  if (kind() == Provenance::from_log) parts.prepend("rounded here");
  if (exampleBlocks() > 1)
    parts << QString("block %1 of %2").arg(first_ / block_size(state_.format) + 1).arg(exampleBlocks());
  if (undo_.canUndo() && state_.values != original_.values) parts << QString("edited");
  if (isShort()) parts << origin_.length;
  parts << figures();
  if (!origin_.tensor.isEmpty() && bar_->isHidden()) parts << origin_.tensor;  // else the bar names it
  return parts.join(QStringLiteral(", "));
}

// Says so if the other panels show another step.
QString BlockMicroscopePanel::stepText() const {
  if (origin_.step < 0) return {};
  const auto frame = selection_->quantFrame();
  const QString step = QString("%1 %2").arg(selection_->stepWord(), formatCount(origin_.step));
  return !frame || frame->step == origin_.step ? step
                                               : step + QString(" (other panels: %1)").arg(formatCount(frame->step));
}

QString BlockMicroscopePanel::figures() const {
  const QuantSums& sums = block_.sums;
  if (block_.is_nan()) return QString("NaN block: no figures");
  QString text = sums.err2 == 0 ? QString("exact") : QString("SQNR %1 dB").arg(formatValue(sums.sqnr_db(), 3));
  text += QString(", %1 of %2 flushed to zero").arg(sums.underflow).arg(sums.elements);
  return sums.clipped == 0 ? text : text + QString(", %1 clipped").arg(sums.clipped);
}

// The same values in the chosen format and those of a comparison, under the chosen rule and rounding: "MXFP8 E4M3 29.6
// dB; MXFP4 E2M1 17.6 dB, 6 to zero; NVFP4 19.9 dB". The short line keeps the lost values: a high SQNR may hide them.
Panel::Answer BlockMicroscopePanel::answer() const {
  const std::span<const float> values = shownValues();
  const float amax = isExample() ? exampleAmax() : tensor_amax_;
  QStringList formats, brief;
  for (int i = 0; i < format_->count(); ++i) {
    OperandFormat format = formatAt(i);
    format.rounding = state_.rounding;
    const bool is_compared =
        i == format_->currentIndex() || format.element == ElementFormat::e4m3 || format.element == ElementFormat::e2m1;
    if (format.scheme == QuantScheme::fp8 || !is_compared) continue;
    QuantSums sums;
    const std::size_t size = block_size(format);
    for (std::size_t first = 0; first < values.size(); first += size)
      sums.add(
          block_anatomy(format, values.subspan(first, std::min(size, values.size() - first)), state_.draw, amax).sums);
    if (sums.elements == 0 || sums.all_nan()) continue;
    const QString db = sums.err2 == 0 ? QString("exact") : formatValue(sums.sqnr_db(), 3) + QStringLiteral(" dB");
    const QString cost = db + (sums.underflow > 0 ? QString(", %1 to zero").arg(sums.underflow) : QString());
    formats << format_->itemText(i) + QLatin1Char(' ') + cost;
    brief << format_->itemText(i).section(QLatin1Char(' '), -1) + QLatin1Char(' ') + cost;
  }
  if (brief.isEmpty()) return {};
  const QString reason = isShort() ? QString(" (%1)").arg(origin_.length) : QString();
  return {QString("What do the formats cost these %1 values%2?").arg(values.size()).arg(reason),
          {formats.join(QStringLiteral("; ")), brief.join(QStringLiteral("; "))}};
}

ValueTable BlockMicroscopePanel::table() const {
  ValueTable table({"element", "value", "scaled", "code", "sign", "exponent", "mantissa", "decoded", "dequantized",
                    "error", "underflow", "clipped"});
  for (std::size_t i = 0; i < block_.elements.size(); ++i) {
    const ElementAnatomy& e = block_.elements[i];
    table.add(i, e.value, e.scaled, e.fields.code, e.fields.sign, e.fields.exponent, e.fields.mantissa, e.decoded,
              e.dequantized, e.error, e.underflow, e.clipped);
  }
  return table;
}

}  // namespace moescope
