# Hashes, arrays and text, and a child. Prints a line for each.
use strict;
use warnings;
use Digest::SHA qw(sha256_hex);

my %words = map { $_ => "word $_ " x 4 } 1 .. 100000;
my @lists = map { [ map { $_ * 3 } $_ .. $_ + 20 ] } 1 .. 20000;
print scalar(keys %words), " ", sha256_hex(join ",", map { $words{$_} } sort keys %words), "\n";
my $sum = 0;
$sum += $_->[7] for @lists;
print "$sum\n";
delete $words{$_ * 3} for 1 .. 30000;
my $text = join "", map { $words{$_} // "-" } 1 .. 100000;
my $found = () = $text =~ /word \d*7 /g;
print length($text), " $found\n";
print `echo child`;
