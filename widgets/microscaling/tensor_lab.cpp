#include "widgets/microscaling/tensor_lab.h"

#include <QDragEnterEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QInputDialog>
#include <QMimeData>
#include <QPainter>
#include <QSplitter>
#include <QTabBar>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "widgets/look/layouts.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/microscaling/block_microscope_panel.h"
#include "widgets/microscaling/block_scale_map_panel.h"
#include "widgets/microscaling/by_expert_panel.h"
#include "widgets/microscaling/capture_bar.h"
#include "widgets/microscaling/tensor_verdict.h"
#include "widgets/microscaling/tensors_panel.h"
#include "widgets/microscaling/what_if_panel.h"
#include "widgets/panel/tensor_text.h"

namespace moescope {
namespace {

// The rounded surface of a panel without a dock.
class PanelFrame : public QWidget {
 public:
  PanelFrame(QWidget* content, QWidget* parent) : QWidget(parent) {
    auto* column = new QVBoxLayout(this);
    column->setContentsMargins(0, kSpace4, 0, 0);  // the same margin as below the grip of a dock
    column->addWidget(content);
  }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter painter(this);
    const Colors& c = colors(palette());
    drawRounded(painter, rect(), kRadiusPanel, QColor(c.surface), QColor(c.hairline));
  }
};

}  // namespace

TensorLab::TensorLab(Selection* selection, QWidget* parent) : QWidget(parent) {
  setAcceptDrops(true);
  setAccessibleName("Tensor laboratory");
  browser_ = new TensorsPanel(selection, this);
  map_ = new BlockScaleMapPanel(selection, this);
  what_if_ = new WhatIfPanel(selection, this);
  microscope_ = new BlockMicroscopePanel(selection, this);

  experts_ = new ByExpertPanel(selection, this);
  verdict_ = new VerdictLine(this);
  verdict_->setExplanation("Verdict on a file", explainTensorVerdict);
  bar_ = new CaptureBar(this);
  lists_ = new QTabWidget(this);
  lists_->setDocumentMode(true);
  lists_->setTabPosition(QTabWidget::South);
  lists_->addTab(browser_, browser_->title());
  lists_->addTab(experts_, experts_->title());
  makeLayout();
  // Small panels leave room for a lesson on a small screen.
  for (Panel* panel : panels()) panel->setMinimumSize(200, 140);
  connectPanels();
  showBars();
}

void TensorLab::makeLayout() {
  setAutoFillBackground(true);  // paints the gaps between the frames
  const auto splitter = [this](Qt::Orientation along, std::initializer_list<QWidget*> parts, const QList<int>& sizes) {
    auto* made = new QSplitter(along, this);
    made->setHandleWidth(kSpace8);
    made->setChildrenCollapsible(false);
    for (QWidget* part : parts) made->addWidget(part);
    made->setSizes(sizes);
    return made;
  };
  lists_frame_ = new PanelFrame(lists_, this);
  auto* top = splitter(Qt::Horizontal, {new PanelFrame(map_, this), new PanelFrame(what_if_, this)}, {560, 500});
  auto* right = splitter(Qt::Vertical, {top, new PanelFrame(microscope_, this)}, {340, 420});
  right->setStretchFactor(0, 1);
  right->setStretchFactor(1, 1);
  auto* all = splitter(Qt::Horizontal, {lists_frame_, right}, {300, 1060});
  all->setStretchFactor(0, 0);
  all->setStretchFactor(1, 1);
  auto* column = plainColumn(this, 0);
  for (QWidget* bar : std::initializer_list<QWidget*>{verdict_, bar_}) column->addWidget(bar);
  column->addWidget(all, 1);
}

std::vector<Panel*> TensorLab::panels() const {
  return {browser_, experts_, map_, what_if_, microscope_};
}

void TensorLab::connectPanels() {
  for (Panel* panel : panels()) connect(panel, &Panel::readoutChanged, this, &TensorLab::readoutChanged);
  connect(browser_, &TensorsPanel::openRequested, this, &TensorLab::askForFile);
  connect(browser_, &TensorsPanel::typeWanted, this, &TensorLab::askForType);
  connect(browser_, &TensorsPanel::tensorChosen, this, &TensorLab::openWhole);
  connect(browser_, &TensorsPanel::figuresChanged, this, &TensorLab::judge);
  connect(verdict_, &VerdictLine::linkActivated, this, [this] {
    if (const int worst = worstTensor(browser_->model(), format_); worst >= 0) browser_->select(worst);
  });
  connect(bar_, &CaptureBar::rotationToggled, this, [this] {
    if (captured_) showCaptured();
  });
  connect(bar_, &CaptureBar::textChanged, this, &TensorLab::showBars);
  connect(experts_, &ByExpertPanel::expertChosen, this, &TensorLab::showExpert);
  connect(map_, &BlockScaleMapPanel::sliceChosen, this, [this](std::size_t slice) { openTensor(source_, slice); });
  connect(map_, &BlockScaleMapPanel::blockChosen, this,
          [this](std::size_t line, std::size_t block) { openBlock(line, block, 0); });
  const auto turn = [this](BlockAxis axis) { setFormat(format_, axis); };
  connect(map_, &BlockScaleMapPanel::axisChosen, this, turn);
  connect(microscope_, &BlockMicroscopePanel::axisChosen, this, turn);
  connect(microscope_, &BlockMicroscopePanel::elementChosen, this, [this](int element) { element_ = element; });
  connect(microscope_, &BlockMicroscopePanel::formatChosen, this,
          [this](const OperandFormat& f) { setFormat(f, axis_); });
  connect(what_if_, &WhatIfPanel::chosen, this, &TensorLab::setFormat);
}

// Judges the tensors of a file that have been measured in the selected format.
void TensorLab::judge() {
  verdict_->setVerdict(browser_->showsFile() ? tensorVerdict(browser_->model(), format_) : VerdictLine::Judgement());
  showBars();
}

// Hides the bar for tensors of a file unless it has news, and the list of experts unless an operand was captured.
void TensorLab::showBars() {
  const bool of_file = source_.valid() && browser_->showsFile() && !source_.captured();
  bar_->setVisible(!bar_->text().isEmpty() && (!of_file || bar_->hasNews()));
  lists_->tabBar()->setVisible(whole_.captured() != nullptr);
}

bool TensorLab::openFile(const QString& path) {
  bar_->showSample({});
  return browser_->openFile(path);
}

void TensorLab::setTensor(const QString& name, std::size_t rows, std::size_t cols, std::vector<float> values) {
  browser_->addTensor(TensorSource(name, rows, cols, std::move(values)));
}

void TensorLab::removeTensor(const QString& name) {
  browser_->removeTensor(name);
}

void TensorLab::setCaptured(std::shared_ptr<const CapturedOperand> captured) {
  captured_ = std::move(captured);
  showCaptured();
}

// Shows the operand after the rotation, as it is quantized, or before it if the user wants that.
void TensorLab::showCaptured() {
  auto captured = captured_;
  const bool turned = captured->format.hadamard > 0 && bar_->rotatedButton()->isChecked();
  if (turned) captured = std::make_shared<const CapturedOperand>(rotated(*captured));
  const OperandFormat& format = captured->format;
  // An operand without scales is shown in blocks of the selected format; the bar says so.
  OperandFormat blocks = is_scaled(format) ? format : format_;
  blocks.rounding = Rounding::nearest;
  blocks.hadamard = 0;
  // Each block is shown alone, with the scale that it would have alone.
  blocks.nvfp4 = {.rule = blocks.nvfp4.rule};
  setFormat(blocks, captured->axis);
  const QString name = QString::fromStdString(captured->run_name) + QStringLiteral(": ") + placeName(captured->place) +
                       (turned ? QString(", rotated") : QString());
  browser_->addTensor(TensorSource(name, std::move(captured)));
  if (format.rounding != microscope_->block().format.rounding) microscope_->setRounding(format.rounding);
}

void TensorLab::openWhole(const TensorSource& source) {
  whole_ = source;
  experts_->setCaptured(source.captured());
  if (!source.captured()) lists_->setCurrentWidget(browser_);
  openTensor(source, 0);
  showBars();
}

void TensorLab::showExpert(int expert) {
  if (!whole_.valid()) return;
  const auto groups = static_cast<int>(whole_.rowGroups().size()) - 1;
  if (expert >= groups) return;
  if (expert >= 0 && !whole_.group(expert).valid()) {
    emit readoutChanged(QString("Expert %1 got no token in this step").arg(expert));
    return;
  }
  openTensor(expert < 0 || !whole_.grouped() ? whole_ : whole_.group(expert), 0);
  experts_->setCurrent(expert);
}

void TensorLab::showTensor(const QString& name, const MatrixFormat& format, std::size_t row, std::size_t col) {
  if (!browser_->selectNamed(name)) return;
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
  showExpert(-1);
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
      if (std::fabs(values[i]) > largest) largest = std::fabs(values[i]), found = {row, first.col + i};
    }
  }
  return found;
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
  if (source_.valid()) openBlock(0, 0, 0);
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
  microscope_->setBlock({place + expert + slice, source_.name()},
                        source_.readBlock(slice_, along_rows, line, block, block_size(format_)), format_, axis_,
                        source_.sharedAmax(slice_, format_, axis_, line, block));
  microscope_->selectElement(element);
  if (const QString loss = source_.lost(); !loss.isEmpty())
    bar_->showSample(QString("%1. Missing values are read as NaN.").arg(loss));
}

// Opens the block through the same element again if blocks get other values or another scale.
void TensorLab::setFormat(const OperandFormat& format, BlockAxis axis) {
  if (format == format_ && axis == axis_) return;
  const bool other = axis != axis_ || block_size(format) != block_size(format_) || shares_scale(format);
  const Element at = elementAt(block_size(format_));
  format_ = format;
  axis_ = axis;
  map_->setFormat(format_, axis_);
  what_if_->setChoice(format_, axis_);
  browser_->setFormat(format_, axis_);
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
  if (axis_ == BlockAxis::row) return openBlock(at.row, at.col / size, at.col % size);
  const std::size_t block = source_.blockAt(at.row, size);
  openBlock(at.col, block, at.row - source_.blockRows(block, size).first);
}

void TensorLab::askForFile() {
  const QString path = QFileDialog::getOpenFileName(
      this, "Open tensors", {}, "Tensors (*.safetensors *.npy *.npz *.pt *.pth *.index.json);;All files (*)");
  if (!path.isEmpty()) openFile(path);
}

// Asks for the type of the values of a NumPy array that does not state it.
void TensorLab::askForType(const QString& path, std::size_t bits) {
  QStringList types;
  for (const DType dtype : kTypesOfUntypedBytes)
    if (dtype_bits(dtype) == bits) types << QLatin1String(dtype_name(dtype));
  auto* dialog = new QInputDialog(this);
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

void TensorLab::dragEnterEvent(QDragEnterEvent* event) {
  if (event->mimeData()->hasUrls() && event->mimeData()->urls().first().isLocalFile()) event->acceptProposedAction();
}

void TensorLab::dropEvent(QDropEvent* event) {
  openFile(event->mimeData()->urls().first().toLocalFile());
  event->acceptProposedAction();
}

}  // namespace moescope
