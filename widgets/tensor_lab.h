// A tensor down to the block: list | map of block scales | what-if strip, and the microscope below.
//
// One choice of element format, scale rule, block size and axis holds for all four.
#pragma once

#include <QWidget>
#include <vector>

#include "core/numerics/block_quantize.h"
#include "widgets/tensor_source.h"

namespace moescope {

class Microscope;
class Panel;
class ScaleMap;
class Selection;
class TensorBrowser;
class WhatIfStrip;

class TensorLab : public QWidget {
  Q_OBJECT

 public:
  explicit TensorLab(Selection* selection, QWidget* parent = nullptr);

  // Lists the tensors of a .safetensors file and opens the first; false: the list says why not.
  bool openFile(const QString& path);
  // A tensor captured from the run, rows x cols, row-major; replaces an earlier one of the same name.
  void setTensor(const QString& name, std::size_t rows, std::size_t cols, std::vector<float> values);
  void setFormat(const BlockFormat& format, BlockAxis axis);

  TensorBrowser* browser() const { return browser_; }
  ScaleMap* map() const { return map_; }
  WhatIfStrip* whatIf() const { return what_if_; }
  Microscope* microscope() const { return microscope_; }
  std::vector<Panel*> panels() const;  // for exports and explanations
  QSize sizeHint() const override { return {1280, 760}; }

 signals:
  void readoutChanged(const QString& text);

 protected:
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;

 private:
  void connectPanels();
  void openTensor(const TensorSource& source, std::size_t slice);
  void openBlock(std::size_t line, std::size_t block, int element);
  void turnAxis(BlockAxis axis);
  void askForFile();

  TensorSource source_;
  std::size_t slice_ = 0, line_ = 0, block_ = 0;
  int element_ = 0;  // chosen in the microscope
  BlockFormat format_;
  BlockAxis axis_ = BlockAxis::row;

  TensorBrowser* browser_;
  ScaleMap* map_;
  WhatIfStrip* what_if_;
  Microscope* microscope_;
};

}  // namespace moescope
