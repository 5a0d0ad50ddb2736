# A parent and two children, each of which changes its own copy of the memory that they share at the fork. Prints sums of
# all of it.
my @lines = map { "line $_ " x 300 } 1 .. 4000;
my %hash = map { $_ => "value $_ " x 20 } 1 .. 2000;
my @keys = sort keys %hash;

sub sums {
    my $sum = 0;
    $sum = ($sum * 31 + unpack "%32C*", $_) % 1000000007 for @lines, @hash{@keys};
    return "$sum of " . @lines . " and " . keys %hash;
}

$| = 1;
print "before: ", sums(), "\n";
my (@children, @pipes);
for my $child (1, 2) {
    pipe my $from, my $to or die "pipe: $!";
    defined(my $pid = fork) or die "fork: $!";
    if (!$pid) {
        for (@keys) { $hash{$_} .= " of child $child" if $_ % 3 == $child }
        for (1 .. $#lines) { substr $lines[$_], $child, 1, "c" if $_ % 3 == $child }
        print $to "child $child: ", sums(), "\n";
        close $to or die "close: $!";
        exit $child;
    }
    push @children, $pid;
    push @pipes, $from;
}
for (@keys) { $hash{$_} .= " of the parent" if $_ % 2 }
print <$_> for @pipes;
for (@children) {
    waitpid $_, 0;
    print "exit code ", $? >> 8, "\n";
}
print "after: ", sums(), "\n";
