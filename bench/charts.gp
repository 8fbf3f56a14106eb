# Draws a bar chart with a logarithmic axis: gnuplot -c charts.gp DATA SVG TITLE AXIS
# A line of DATA: "LABEL" MEDIAN LOW HIGH COLOR
stats ARG1 using 2 nooutput
low = 10**floor(log10(STATS_min) - 0.3)
high = STATS_max * 4
text(x) = x < 10 ? sprintf("%.2f", x) : sprintf("%.0f", x)
set terminal svg size 760, 150 + 26 * STATS_records font "sans-serif,13" background "#ffffff"
set output ARG2
set title ARG3 . "\nbar: median; line: lowest to highest round"
set xlabel ARG4 . " (logarithmic)"
set logscale x
set format x "%g"
set xrange [low:high]
set yrange [-0.6:STATS_records - 0.4]
set border 3
set tics nomirror scale 0.5
unset key
plot ARG1 using 2:0:(low):2:($0 - 0.35):($0 + 0.35):5:yticlabels(1) \
    with boxxyerror fillstyle solid 1 noborder linecolor rgb variable, \
  "" using 2:0:3:4 with xerrorbars pointtype 0 linecolor rgb "#24292f", \
  "" using ($4 > $2 ? $4 : $2):0:(text($2)) with labels left offset 1, 0
