# Draws what demo-guest wrote; scripts/demo sets data and picture.
set terminal svg size 800,420 background "white" font "sans-serif,13"
set output picture
stats data index 1 using 1 nooutput name "message"
set title "Two dm-ioband devices on one disk: share of each in every 100 ms"
set xlabel "seconds"
set ylabel "share of the disk, %"
set xrange [0:]
set yrange [0:100]
set ytics 25
set grid ytics lc "#dddddd"
set key center right
set arrow from message_max, 0 to message_max, 100 nohead dt 2 lc "#666666"
set label "dmsetup message: weights 200:100 become 100:300" at message_max, 95 offset 1,0
plot data index 0 using 1:2 with linespoints pt 7 ps 0.4 lw 2 lc "#c0392b" title "first device", \
     data index 0 using 1:3 with linespoints pt 7 ps 0.4 lw 2 lc "#2471a3" title "second device"
