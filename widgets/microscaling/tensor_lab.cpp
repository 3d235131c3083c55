#include "widgets/microscaling/tensor_lab.h"

#include <QFileDialog>
#include <QFileInfo>
#include <QInputDialog>
#include <algorithm>
#include <cmath>

#include "widgets/microscaling/block_microscope_panel.h"
#include "widgets/microscaling/block_scale_map_panel.h"
#include "widgets/microscaling/capture_bar.h"
#include "widgets/microscaling/tensor_verdict.h"
#include "widgets/microscaling/tensors_panel.h"
#include "widgets/microscaling/what_if_panel.h"
#include "widgets/panel/tensor_text.h"

namespace moescope {
namespace {

constexpr std::size_t kRankedBlocks = 1024;  // number of blocks that are sampled to find those that lose most

}  // namespace

TensorLab::TensorLab(Selection* selection, QWidget* parent) : QObject(parent), selection_(selection) {
  browser_ = new TensorsPanel(selection, parent);
  map_ = new BlockScaleMapPanel(selection, parent);
  what_if_ = new WhatIfPanel(selection, parent);
  microscope_ = new BlockMicroscopePanel(selection, parent);
  bar_ = microscope_->captureBar();
  verdict_ = new VerdictLine(parent);
  verdict_->setExplanation("Verdict on the number formats",
                           [this] { return browser_->showsFile() ? explainTensorVerdict() : explainOperandVerdict(); });
  connectPanels();
  showBars();
}

void TensorLab::connectPanels() {
  connect(browser_, &TensorsPanel::openRequested, this, &TensorLab::askForFile);
  connect(browser_, &TensorsPanel::typeWanted, this, &TensorLab::askForType);
  connect(browser_, &TensorsPanel::tensorChosen, this, &TensorLab::openWhole);
  connect(browser_, &TensorsPanel::figuresChanged, this, &TensorLab::judge);
  connect(selection_, &Selection::changed, this, [this] {  // most steps have no new statistics
    const std::pair judged{selection_->quantFrame(), selection_->histories().size()};
    if (std::exchange(judged_, judged) != judged || !judged.first) judge();
  });
  connect(verdict_, &VerdictLine::linkActivated, this, [this] {
    if (!browser_->showsFile() && !selection_->quantFrame())
      return emit formatWanted(QLatin1String("precision.") +
                               QLatin1String(gemm_class_name(selection_->tensor().gemm_class())));
    const int worst = browser_->showsFile() ? worstTensor(browser_->model(), format_) : -1;
    if (worst >= 0) browser_->select(worst);
    if (const auto operand = operandOfVerdict(*selection_); operand && !browser_->showsFile())
      selection_->setTensor(*operand);
  });
  connect(bar_, &CaptureBar::rotationToggled, this, [this] {
    if (captured_) showCaptured();
  });
  connect(bar_, &CaptureBar::textChanged, this, &TensorLab::showBars);
  connect(map_, &BlockScaleMapPanel::sliceChosen, this, [this](std::size_t slice) { openTensor(source_, slice); });
  connect(map_, &BlockScaleMapPanel::blockChosen, this,
          [this](std::size_t line, std::size_t block) { openBlock(line, block, 0); });
  const auto turn = [this](BlockAxis axis) { setFormat(format_, axis); };
  connect(map_, &BlockScaleMapPanel::axisChosen, this, turn);
  connect(microscope_, &BlockMicroscopePanel::axisChosen, this, turn);
  connect(microscope_, &BlockMicroscopePanel::stepped, this, [this](int direction) {
    if (!ranked_.empty()) openRanked((rank_ + ranked_.size() + direction) % ranked_.size());
  });
  connect(microscope_, &BlockMicroscopePanel::elementChosen, this, [this](int element) { element_ = element; });
  connect(microscope_, &BlockMicroscopePanel::formatChosen, this,
          [this](const OperandFormat& f) { setFormat(f, axis_); });
  connect(what_if_, &WhatIfPanel::chosen, this, &TensorLab::setFormat);
}

// Judges the tensors of a file that have been measured in the selected format; without a file the operands of the run.
void TensorLab::judge() {
  verdict_->setVerdict(browser_->showsFile() ? tensorVerdict(browser_->model(), format_) : operandVerdict(*selection_));
  showBars();
}

// Hides the bar for tensors of a file, and for a run without an operand to click, unless it has news.
void TensorLab::showBars() {
  const bool shows_file = source_.valid() && browser_->showsFile() && !source_.captured();
  const bool has_none = selection_->history() && !selection_->quantFrame() && !source_.valid();
  bar_->setVisible(!bar_->text().isEmpty() && ((!shows_file && !has_none) || bar_->hasNews()));
}

bool TensorLab::openFile(const QString& path) {
  bar_->showSample({});
  return browser_->openFile(path);
}

void TensorLab::setTensor(const QString& name, std::size_t rows, std::size_t cols, std::vector<float> values) {
  browser_->addTensor(TensorSource(name, rows, cols, std::move(values)));
}

void TensorLab::removeTensor(const QString& name) {
  browser_->removeTensors([&name](const TensorSource& tensor) { return tensor.name() == name; });
}

void TensorLab::dropCaptured() {
  captured_.reset();
  browser_->removeTensors([](const TensorSource& tensor) { return tensor.captured() != nullptr; });
  closeCaptured();
}

void TensorLab::setCaptured(std::shared_ptr<const CapturedOperand> captured, bool keeps_block) {
  captured_ = std::move(captured);
  keeps_block_ = keeps_block;
  showCaptured();
}

// Shows the operand after the rotation, as it is quantized, or before it if the user wants that.
void TensorLab::showCaptured() {
  auto captured = captured_;
  const bool turned = captured->format.hadamard > 0 && bar_->rotatedButton()->isChecked();
  if (turned) captured = std::make_shared<const CapturedOperand>(rotated(*captured));
  const OperandFormat& format = captured->format;
  setFormatOf(format, captured->axis);
  captured_format_ = format_;
  const QString name = QString::fromStdString(captured->run_name) + QStringLiteral(": ") + placeName(captured->place) +
                       (turned ? QString(", rotated") : QString());
  browser_->addTensor(TensorSource(name, std::move(captured)));
  if (format.rounding != microscope_->block().format.rounding) microscope_->setRounding(format.rounding);
}

// An operand without scales is shown in blocks of the selected format; the bar says so. Each block is shown alone, with
// the scale that it would have alone.
void TensorLab::setFormatOf(const OperandFormat& operand, BlockAxis axis) {
  OperandFormat blocks = is_scaled(operand) ? operand : format_;
  blocks.rounding = Rounding::nearest;
  blocks.hadamard = 0;
  blocks.nvfp4 = {.rule = blocks.nvfp4.rule};
  setFormat(blocks, axis);
}

// A captured operand is shown at the block that loses most. A later capture of a run that trains, or after the user
// chose a block, is shown at the same block, so that its values can be followed over the steps.
void TensorLab::openWhole(const TensorSource& source) {
  const bool is_later =
      source.captured() && source_.captured() && whole_.name() == source.name() && source_.rows() == whole_.rows();
  const bool is_home = showsAsCaptured();
  const Element block{line_, block_};
  const int element = element_;
  whole_ = source;
  openTensor(source, 0);
  if (is_later && hasBlock(block) && (!is_home || keeps_block_)) openBlock(block.row, block.col, element);
  if (is_later && is_home) home_ = {line_, block_};
  showBars();
}

bool TensorLab::hasBlock(Element block) const {
  const std::size_t size = block_size(format_);
  if (axis_ == BlockAxis::row) return block.row < source_.rows() && block.col * size < source_.cols();
  return block.row < source_.cols() && block.col < source_.blocksDown(size);
}

void TensorLab::showTensor(const QString& name, const MatrixFormat& format, std::size_t row, std::size_t col) {
  if (!browser_->selectNamed(name)) return;
  emit readoutChanged({});  // that of the element shown before
  setFormat(format.format, format.axis);
  openElement({row, col});
}

void TensorLab::showElement(const OperandElement& at) {
  if (!whole_.captured()) return;
  const auto& groups = whole_.rowGroups();
  const std::size_t expert = std::max(0, at.expert);
  if (expert + 1 >= groups.size()) return;
  const std::size_t begin = at.expert < 0 ? 0 : groups[expert],
                    end = at.expert < 0 ? whole_.rows() : groups[expert + 1];
  const Element first{begin + std::max<Index>(0, at.row), static_cast<std::size_t>(std::max<Index>(0, at.column))};
  const Element last{at.row < 0 ? end : first.row + 1, at.column < 0 ? whole_.cols() : first.col + 1};
  if (first.row >= last.row || last.row > end || first.col >= last.col || last.col > whole_.cols()) return;
  openTensor(whole_, 0);
  openElement(mostExtreme(first, last));
}

// Searches from `first` up to `last`, exclusive.
TensorLab::Element TensorLab::mostExtreme(Element first, Element last) const {
  Element found = first;
  float largest = -1;
  std::vector<float> values(last.col - first.col);
  for (std::size_t row = first.row; row < last.row; ++row) {
    whole_.readRow(0, row, first.col, values.size(), values.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!std::isfinite(values[i])) return {row, first.col + i};
      if (std::fabs(values[i]) > largest) {
        largest = std::fabs(values[i]);
        found = {row, first.col + i};
      }
    }
  }
  return found;
}

bool TensorLab::showsAsCaptured() const {
  const bool is_whole = source_.captured() && source_.rows() == whole_.rows() && format_ == captured_format_;
  return is_whole && !ranked_.empty() && element_ == 0 && line_ == home_.row && block_ == home_.col &&
         !microscope_->underMouse();
}

bool TensorLab::showsBlockOf(std::size_t row, std::size_t col) const {
  const std::size_t size = block_size(format_);
  if (axis_ == BlockAxis::row) return line_ == row && block_ == col / size;
  return line_ == col && block_ == source_.blockAt(row, size);
}

void TensorLab::openTensor(const TensorSource& source, std::size_t slice) {
  source_ = source;
  slice_ = slice;
  map_->setSource(source_, slice_);
  what_if_->setSource(source_, slice_);
  ranked_ = source_.captured() ? rankedBlocks() : std::vector<RankedBlock>();
  microscope_->setSteppable(!ranked_.empty());
  if (!ranked_.empty()) {
    home_ = {ranked_.front().line, ranked_.front().block};
    return openRanked(0);
  }
  if (source_.valid()) openBlock(0, 0, 0);
}

std::vector<TensorLab::RankedBlock> TensorLab::rankedBlocks() const {
  const std::size_t size = block_size(format_);
  const bool along_rows = axis_ == BlockAxis::row;
  const std::size_t lines = along_rows ? source_.rows() : source_.cols();
  const std::size_t blocks = along_rows ? (source_.cols() + size - 1) / size : source_.blocksDown(size);
  const std::size_t stride = std::max<std::size_t>(1, lines * blocks / kRankedBlocks);
  std::vector<RankedBlock> ranked;
  for (std::size_t at = 0; at < lines * blocks; at += stride) {
    const std::size_t line = at / blocks, block = at % blocks;
    const BlockAnatomy anatomy = block_anatomy(format_, source_.readBlock(slice_, along_rows, line, block, size), 0,
                                               source_.sharedAmax(slice_, format_, axis_, line, block));
    if (anatomy.is_nan())
      ranked.push_back({line, block, size, -HUGE_VAL, anatomy.scale.exponent});
    else
      ranked.push_back(
          {line, block, anatomy.sums.underflow + anatomy.sums.clipped, anatomy.sums.sqnr_db(), anatomy.scale.exponent});
  }
  std::ranges::stable_sort(ranked, [](const RankedBlock& a, const RankedBlock& b) {
    return a.lost != b.lost ? a.lost > b.lost : a.sqnr_db < b.sqnr_db;
  });
  return ranked;
}

BlockLosses TensorLab::losses() const {
  BlockLosses losses;
  if (!source_.captured()) return losses;
  losses.operand = source_.captured()->place;
  losses.sampled = static_cast<int>(ranked_.size());
  losses.shown = microscope_->block().scale.exponent;
  for (const RankedBlock& block : ranked_) {
    ++losses.blocks[block.scale];
    losses.losing[block.scale] += block.lost >= BlockLosses::kLosingShare * block_size(format_);
  }
  return losses;
}

void TensorLab::closeCaptured() {
  if (!source_.captured()) return;
  captured_.reset();
  whole_ = {};
  openTensor({}, 0);
  microscope_->showExample();
  bar_->showSample({});
  emit blockShown();
}

void TensorLab::openRanked(std::size_t rank) {
  rank_ = rank;
  openBlock(ranked_[rank].line, ranked_[rank].block, 0);
}

void TensorLab::openBlock(std::size_t line, std::size_t block, int element) {
  const bool along_rows = axis_ == BlockAxis::row;
  line_ = line;
  block_ = block;
  element_ = element;
  map_->setCurrent(line, block);
  const QString place =
      (along_rows ? QString("row %1, block %2") : QString("column %1, block %2")).arg(line).arg(block);
  const std::size_t row = along_rows ? line : source_.blockRows(block, block_size(format_)).first;
  const QString slice = source_.slices() > 1 ? QString(", slice %1").arg(slice_) : QString();
  const QString expert = source_.grouped() ? QString(", expert %1").arg(source_.groupOf(row)) : QString();
  const auto captured = source_.captured();
  microscope_->setBlock(
      {place + expert + slice, source_.name(), captured ? QString::fromStdString(captured->run_name) : QString(),
       captured ? captured->step : -1, lengthOfLine(row)},
      source_.readBlock(slice_, along_rows, line, block, block_size(format_)), format_, axis_,
      source_.sharedAmax(slice_, format_, axis_, line, block), source_.tensorAmax(slice_, row));
  microscope_->selectElement(element);
  emit blockShown();
  if (const QString loss = source_.lost(); !loss.isEmpty())
    bar_->showSample(QString("%1. Missing values are read as NaN.").arg(loss));
}

// "the expert has 27 tokens": the blocks of a row, or of an expert's column, may end with a shorter one.
QString TensorLab::lengthOfLine(std::size_t row) const {
  if (axis_ == BlockAxis::row) return QString("the row has %1 values").arg(source_.cols());
  if (!source_.grouped()) return QString("the column has %1 values").arg(source_.rows());
  const auto first = source_.rowGroups().begin() + source_.groupOf(row);
  const bool has_tokens = source_.captured() && source_.captured()->place.operand != OperandRole::w;
  return QString(has_tokens ? "the expert has %1 tokens" : "the expert has %1 rows").arg(first[1] - first[0]);
}

// Opens the block through the same element again if blocks get other values or another scale.
void TensorLab::setFormat(const OperandFormat& format, BlockAxis axis) {
  if (format == format_ && axis == axis_) return;
  const bool other = axis != axis_ || block_size(format) != block_size(format_) || shares_scale(format);
  const Element at = elementAt(block_size(format_));
  format_ = format;
  axis_ = axis;
  emit readoutChanged({});  // that of the other format
  map_->setFormat(format_, axis_);
  what_if_->setChoice(format_, axis_);
  browser_->setFormat(format_, axis_);
  if (!ranked_.empty()) ranked_ = rankedBlocks();
  rank_ = 0;
  if (other && source_.valid()) return openElement(at);
  microscope_->setFormat(format_);
}

// Returns the position of the selected element of the open block, for blocks of `size` elements.
TensorLab::Element TensorLab::elementAt(std::size_t size) const {
  const std::size_t element = element_;
  if (axis_ == BlockAxis::row) return {line_, block_ * size + element};
  return {source_.valid() ? source_.blockRows(block_, size).first + element : 0, line_};
}

// Opens the block that contains an element.
void TensorLab::openElement(Element at) {
  if (!source_.valid()) return;
  const std::size_t size = block_size(format_);
  if (axis_ == BlockAxis::row) return openBlock(at.row, at.col / size, to_int(at.col % size));
  const std::size_t block = source_.blockAt(at.row, size);
  openBlock(at.col, block, to_int(at.row - source_.blockRows(block, size).first));
}

void TensorLab::askForFile() {
  const QString path =
      QFileDialog::getOpenFileName(browser_->window(), "Open tensors", {},
                                   "Tensors (*.safetensors *.npy *.npz *.pt *.pth *.index.json);;All files (*)");
  if (!path.isEmpty()) openFile(path);
}

// Asks for the type of the values of a NumPy array that does not state it.
void TensorLab::askForType(const QString& path, std::size_t bits) {
  QStringList types;
  for (const DType dtype : kTypesOfUntypedBytes)
    if (dtype_bits(dtype) == bits) types << QLatin1String(dtype_name(dtype));
  auto* dialog = new QInputDialog(browser_->window());
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->setObjectName(QStringLiteral("type_of_values"));
  dialog->setWindowTitle("Type of the values");
  dialog->setLabelText(QString("%1 has values of %2 bits without a type, as NumPy stores those of ml_dtypes.\nType:")
                           .arg(QFileInfo(path).fileName())
                           .arg(bits));
  dialog->setComboBoxItems(types);
  dialog->setOkButtonText("&Open");
  connect(dialog, &QInputDialog::textValueSelected, this,
          [this, path](const QString& type) { browser_->openFile(path, {dtype_named(type.toStdString())}); });
  dialog->open();
}

}  // namespace moescope
