// The panels that lead from a tensor down to a value: list of tensors, figures by expert, map of block scales, other
// formats, microscope; and the verdict on a file. All share one element format, scale rule, block size and axis.
#pragma once

#include <QObject>
#include <memory>
#include <vector>

#include "core/model/non_finite.h"
#include "core/numerics/quantize.h"
#include "widgets/microscaling/block_scales_panel.h"
#include "widgets/microscaling/tensor_source.h"

namespace moescope {

class CaptureBar;
class BlockMicroscopePanel;
class VerdictLine;
class BlockScaleMapPanel;
class TensorsPanel;
class WhatIfPanel;

class TensorLab : public QObject {
  Q_OBJECT

 public:
  TensorLab(Selection* selection, QWidget* parent);  // `parent`: the parent of the panels

  // Lists the tensors of a file and opens the first one. Returns false if it cannot; the list then shows why.
  bool openFile(const QString& path);
  // Adds and selects a tensor, rows x cols, row-major. It replaces an earlier tensor of the same name.
  void setTensor(const QString& name, std::size_t rows, std::size_t cols, std::vector<float> values);
  void removeTensor(const QString& name);  // removes a tensor from the list, if it is there
  // Shows a captured operand in the format and along the axis of its quantization.
  void setCaptured(std::shared_ptr<const CapturedOperand> captured, bool keeps_block = false);
  // The captured operand shown last; nullptr if there is none.
  std::shared_ptr<const CapturedOperand> captured() const { return captured_; }
  BlockLosses losses() const;  // of the sampled blocks of the shown captured operand
  void closeCaptured();        // shows an example in place of a captured operand
  void dropCaptured();         // also removes all captured operands from the list: their runs are no longer open
  // True if a whole captured operand is shown in the format of its run, at the block that lost most when it was first
  // shown, and the mouse is elsewhere.
  bool showsAsCaptured() const;
  void setFormat(const OperandFormat& format, BlockAxis axis);
  // Shows blocks in the format of an operand of a run, without its rotation and its rounding; keeps the present format
  // if the operand has no scales.
  void setFormatOf(const OperandFormat& operand, BlockAxis axis);
  // Shows an open tensor in this format, with the block that contains one element in the microscope. Does nothing if
  // there is no tensor of that name.
  void showTensor(const QString& name, const MatrixFormat& format, std::size_t row, std::size_t col);
  // Shows a part of the captured operand that is open: an element, or the most extreme element of a row or column,
  // which is the first that is not finite, else the one with the largest magnitude. Does nothing if the operand has no
  // such part.
  void showElement(const OperandElement& at);
  MatrixFormat format() const { return {format_, axis_}; }
  bool showsBlockOf(std::size_t row, std::size_t col) const;  // true if the microscope shows the block of this element
  const QString& tensorName() const { return source_.name(); }  // name of the open tensor; empty if none is open

  CaptureBar* captureBar() const { return bar_; }    // in the microscope
  VerdictLine* verdict() const { return verdict_; }  // on a file, else on the active run; hidden if there is neither
  TensorsPanel* browser() const { return browser_; }
  BlockScaleMapPanel* map() const { return map_; }
  WhatIfPanel* whatIf() const { return what_if_; }
  BlockMicroscopePanel* microscope() const { return microscope_; }

 signals:
  void readoutChanged(const QString& text);
  void formatWanted(const QString& setting);  // the run has no number format: its setting is to be shown
  void blockShown();                          // another block is in the microscope

 private:
  void connectPanels();
  void judge();
  void showBars();
  void showCaptured();
  void openTensor(const TensorSource& source, std::size_t slice);
  void openBlock(std::size_t line, std::size_t block, int element);
  QString lengthOfLine(std::size_t row) const;
  struct Element {
    std::size_t row, col;
  };
  bool hasBlock(Element block) const;  // row: line, col: block
  struct RankedBlock {
    std::size_t line, block;
    std::uint64_t lost;  // values that become zero or are clipped
    double sqnr_db;
    std::uint8_t scale;  // index in QuantSums::e8m0_blocks
  };
  std::vector<RankedBlock> rankedBlocks() const;  // a sample, those that lose most first
  void openRanked(std::size_t rank);
  Element elementAt(std::size_t block_size) const;
  void openElement(Element at);
  Element mostExtreme(Element first, Element last) const;
  void openWhole(const TensorSource& source);
  void askForFile();
  void askForType(const QString& path, std::size_t bits);

  Selection* selection_;
  std::shared_ptr<const CapturedOperand> captured_;
  TensorSource whole_, source_;  // the open tensor, and the shown part of it
  std::size_t slice_ = 0, line_ = 0, block_ = 0;
  bool keeps_block_ = false;         // a later capture is shown at the same block
  Element home_{0, 0};               // block that is shown until the user chooses another one: its line and number
  int element_ = 0;                  // element selected in the microscope
  std::vector<RankedBlock> ranked_;  // of the shown captured operand; empty for other tensors
  std::size_t rank_ = 0;             // the last opened of them
  OperandFormat format_ = mx_format(ElementFormat::e4m3), captured_format_;  // shown, and that of the captured operand
  BlockAxis axis_ = BlockAxis::row;

  std::pair<std::shared_ptr<const TelemetryFrame>, std::size_t> judged_;  // and the number of runs
  VerdictLine* verdict_;
  CaptureBar* bar_;
  TensorsPanel* browser_;
  BlockScaleMapPanel* map_;
  WhatIfPanel* what_if_;
  BlockMicroscopePanel* microscope_;
};

}  // namespace moescope
