// A tensor down to its blocks. At the top is the verdict on a file, or the origin of a captured operand. Below are the
// list of tensors (or figures by expert), and beside it the map of block scales and the other formats above the
// microscope. Each panel has its own frame.
//
// All panels share one element format, scale rule, block size and axis.
#pragma once

#include <QTabWidget>
#include <QWidget>
#include <memory>
#include <vector>

#include "core/model/non_finite.h"
#include "core/numerics/quantize.h"
#include "widgets/microscaling/tensor_source.h"

namespace moescope {

class CaptureBar;
class ByExpertPanel;
class BlockMicroscopePanel;
class Panel;
class VerdictLine;
class BlockScaleMapPanel;
class Selection;
class TensorsPanel;
class WhatIfPanel;

class TensorLab : public QWidget {
  Q_OBJECT

 public:
  explicit TensorLab(Selection* selection, QWidget* parent = nullptr);

  // Lists the tensors of a file and opens the first one. Returns false if it cannot; the list then shows why.
  bool openFile(const QString& path);
  // Adds and selects a tensor, rows x cols, row-major. It replaces an earlier tensor of the same name.
  void setTensor(const QString& name, std::size_t rows, std::size_t cols, std::vector<float> values);
  void removeTensor(const QString& name);  // removes a tensor from the list, if it is there
  // Shows a captured operand in the format and along the axis of its quantization.
  void setCaptured(std::shared_ptr<const CapturedOperand> captured);
  // The captured operand shown last; nullptr if there is none.
  std::shared_ptr<const CapturedOperand> captured() const { return captured_; }
  void showExpert(int expert);  // shows the rows of one expert of a captured operand; -1: all rows
  void setFormat(const OperandFormat& format, BlockAxis axis);
  // Shows an open tensor in this format, with the block that contains one element in the microscope. Does nothing if
  // there is no tensor of that name.
  void showTensor(const QString& name, const MatrixFormat& format, std::size_t row, std::size_t col);
  // Shows a part of the captured operand that is open: an element, or the most extreme element of a row or column,
  // which is the first that is not finite, else the one with the largest magnitude. Does nothing if the operand has no
  // such part.
  void showElement(const OperandElement& at);
  // Shows or hides the lists of tensors and experts.
  void setListsShown(bool shown) { lists_frame_->setVisible(shown); }
  MatrixFormat format() const { return {format_, axis_}; }
  bool showsBlockOf(std::size_t row, std::size_t col) const;  // true if the microscope shows the block of this element
  const QString& tensorName() const { return source_.name(); }  // name of the open tensor; empty if none is open

  CaptureBar* captureBar() const { return bar_; }
  VerdictLine* verdict() const { return verdict_; }  // verdict on a file; hidden if there is none
  TensorsPanel* browser() const { return browser_; }
  WhatIfPanel* whatIf() const { return what_if_; }
  std::vector<Panel*> panels() const;  // all panels, for exports and explanations
  QSize sizeHint() const override { return {1280, 760}; }

 signals:
  void readoutChanged(const QString& text);

 protected:
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;

 private:
  void makeLayout();
  void connectPanels();
  void judge();
  void showBars();
  void showCaptured();
  void openTensor(const TensorSource& source, std::size_t slice);
  void openBlock(std::size_t line, std::size_t block, int element);
  struct Element {
    std::size_t row, col;
  };
  Element elementAt(std::size_t block_size) const;
  void openElement(Element at);
  Element mostExtreme(Element first, Element last) const;
  void openWhole(const TensorSource& source);
  void askForFile();
  void askForType(const QString& path, std::size_t bits);

  std::shared_ptr<const CapturedOperand> captured_;
  TensorSource whole_, source_;  // the open tensor, and the shown part of it
  std::size_t slice_ = 0, line_ = 0, block_ = 0;
  int element_ = 0;  // element selected in the microscope
  OperandFormat format_ = mx_format(ElementFormat::e4m3);
  BlockAxis axis_ = BlockAxis::row;

  VerdictLine* verdict_;
  CaptureBar* bar_;
  QTabWidget* lists_;
  QWidget* lists_frame_;
  TensorsPanel* browser_;
  ByExpertPanel* experts_;
  BlockScaleMapPanel* map_;
  WhatIfPanel* what_if_;
  BlockMicroscopePanel* microscope_;
};

}  // namespace moescope
