#include "widgets/tensor_lab.h"

#include <QDragEnterEvent>
#include <QFileDialog>
#include <QMimeData>
#include <QSplitter>
#include <QUrl>
#include <QVBoxLayout>
#include <algorithm>

#include "widgets/microscope.h"
#include "widgets/scale_map.h"
#include "widgets/tensor_browser.h"
#include "widgets/what_if.h"

namespace moescope {

TensorLab::TensorLab(Selection* selection, QWidget* parent) : QWidget(parent) {
  setAcceptDrops(true);
  setAccessibleName(tr("Tensor laboratory"));
  browser_ = new TensorBrowser(selection, this);
  map_ = new ScaleMap(selection, this);
  what_if_ = new WhatIfStrip(selection, this);
  microscope_ = new Microscope(selection, this);

  auto* top = new QSplitter(Qt::Horizontal, this);
  for (Panel* panel : std::initializer_list<Panel*>{browser_, map_, what_if_}) top->addWidget(panel);
  top->setSizes({430, 380, 470});
  auto* all = new QSplitter(Qt::Vertical, this);
  all->addWidget(top);
  all->addWidget(microscope_);
  all->setSizes({380, 400});
  all->setStretchFactor(0, 1);
  all->setStretchFactor(1, 1);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(all);
  connectPanels();
}

std::vector<Panel*> TensorLab::panels() const {
  return {browser_, map_, what_if_, microscope_};
}

void TensorLab::connectPanels() {
  for (Panel* panel : panels()) connect(panel, &Panel::readoutChanged, this, &TensorLab::readoutChanged);
  connect(browser_, &TensorBrowser::openRequested, this, &TensorLab::askForFile);
  connect(browser_, &TensorBrowser::tensorChosen, this, [this](const TensorSource& s) { openTensor(s, 0); });
  connect(map_, &ScaleMap::sliceChosen, this, [this](std::size_t slice) { openTensor(source_, slice); });
  connect(map_, &ScaleMap::blockChosen, this,
          [this](std::size_t line, std::size_t block) { openBlock(line, block, 0); });
  connect(map_, &ScaleMap::axisChosen, this, &TensorLab::turnAxis);
  connect(microscope_, &Microscope::axisChosen, this, &TensorLab::turnAxis);
  connect(microscope_, &Microscope::elementChosen, this, [this](int element) { element_ = element; });
  connect(microscope_, &Microscope::formatChosen, this, [this](const BlockFormat& f) { setFormat(f, axis_); });
  connect(what_if_, &WhatIfStrip::chosen, this, &TensorLab::setFormat);
}

bool TensorLab::openFile(const QString& path) {
  return browser_->openFile(path);
}

void TensorLab::setTensor(const QString& name, std::size_t rows, std::size_t cols, std::vector<float> values) {
  browser_->addTensor(TensorSource(name, rows, cols, std::move(values)));
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
  const QString slice = source_.slices() > 1 ? tr(", slice %1").arg(slice_) : QString();
  const QString place = along_rows ? tr("row %1, block %2") : tr("column %1, block %2");
  microscope_->setBlock(source_.name() + slice + QStringLiteral(", ") + place.arg(line).arg(block),
                        source_.readBlock(slice_, along_rows, line, block, static_cast<std::size_t>(format_.block)),
                        format_, axis_);
  microscope_->selectElement(element);
}

// The block through the same element.
void TensorLab::turnAxis(BlockAxis axis) {
  if (axis == axis_) return;
  const auto size = static_cast<std::size_t>(format_.block);
  const std::size_t along = block_ * size + static_cast<std::size_t>(element_);
  const std::size_t line = line_;
  axis_ = axis;
  map_->setFormat(format_, axis_);
  what_if_->setChoice(format_, axis_);
  browser_->setFormat(format_, axis_);
  if (source_.valid()) openBlock(along, line / size, static_cast<int>(line % size));
}

void TensorLab::setFormat(const BlockFormat& format, BlockAxis axis) {
  const bool other_block = format.block != format_.block;
  if (!other_block && format.element == format_.element && format.rule == format_.rule) return turnAxis(axis);
  const std::size_t along = block_ * static_cast<std::size_t>(format_.block) + static_cast<std::size_t>(element_);
  format_ = format;
  map_->setFormat(format_, axis_);
  what_if_->setChoice(format_, axis_);
  browser_->setFormat(format_, axis_);
  if (axis != axis_ || other_block) {
    const auto size = static_cast<std::size_t>(format_.block);
    block_ = along / size;
    element_ = static_cast<int>(along % size);
    if (axis != axis_) return turnAxis(axis);
    if (source_.valid()) return openBlock(line_, block_, element_);
  }
  microscope_->setFormat(format_);
}

void TensorLab::askForFile() {
  const QString path =
      QFileDialog::getOpenFileName(this, tr("Open tensors"), {}, tr("Tensors (*.safetensors);;All files (*)"));
  if (!path.isEmpty()) openFile(path);
}

void TensorLab::dragEnterEvent(QDragEnterEvent* event) {
  if (event->mimeData()->hasUrls() && event->mimeData()->urls().first().isLocalFile()) event->acceptProposedAction();
}

void TensorLab::dropEvent(QDropEvent* event) {
  openFile(event->mimeData()->urls().first().toLocalFile());
  event->acceptProposedAction();
}

}  // namespace moescope
